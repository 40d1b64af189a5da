-- What ends a request on a table of the user's own (inbox.py composes the rest), each with one more column behind it.
--
-- Names and rules of the text are those of queue.sql.  ?1 is the lane.

-- name: outcome
-- As outcome of queue.sql; what follows is one more column.
UPDATE {state} SET busy=0 RETURNING {of_lane},t,(paused=0 AND {any_ready})-1

-- name: outcome_again
-- The same, read after a lost reply; what follows is one more column and this_lane.
SELECT json_array(n,base,json(lost_a),json(lost_n)),{t},{work_hint}

-- name: picked
-- The rows that a claim has picked, a JSON list of their ids.
(SELECT picked FROM {lane} WHERE lane=?1)

-- name: pick
-- What follows is an expression in brackets.
UPDATE {lane} SET picked=

-- name: lose
UPDATE {lane} SET lost_n=

-- name: lost
(SELECT value FROM json_each((SELECT lost_n FROM {lane} WHERE lane=?1)))

-- name: lost_list
(SELECT lost_n FROM {lane} WHERE lane=?1)

-- name: guard
-- Rolls all back when a row was lost.
UPDATE {lane} SET n=NULL WHERE lane=?1 AND lost_n<>'[]'

-- name: now
-- The queue's time.
(SELECT t FROM {state})

-- name: turn
-- Rises with every claim of the database.
(SELECT turn FROM {state})

-- name: of_lane
WHERE lane=?1

-- name: this_lane
FROM {lane} WHERE lane=?1
