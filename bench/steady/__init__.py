"""A steady run, `python -m bench.steady`: publishers and workers in several processes against one rqlited or three.

It prints rate, p99, memory, file sizes and the rows of the bookkeeping tables as they go, and at the end says of each
whether it drifts upward. Publishers hold back while the workers are far behind, so that the queue stays short on a
machine that has other things to do. Every message must be worked once, and in order in its group, else the run fails.
"""
