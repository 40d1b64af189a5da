# Batcher: where calls wait, and which of them may go together.

cdef enum:
    RANK_ACK = 0
    RANK_OTHER = 1
    RANK_PUBLISH = 2
    NO_LANE = -1
    FEW = 64


@cython.final
cdef class Fifo:
    """A queue of calls that is read from its front and may keep some of what it has passed."""

    cdef list items
    cdef Py_ssize_t head

    def __cinit__(self):
        self.items = []

    cdef int append(self, object call) except -1:
        self.items.append(call)
        return 0

    cdef Py_ssize_t size(self):
        return len(self.items) - self.head

    cdef int cut(self, Py_ssize_t upto, list kept) except -1:
        if kept:
            self.items = kept + self.items[upto:]
            self.head = 0
        elif upto >= len(self.items):
            self.items = []
            self.head = 0
        elif upto > 4096:
            self.items = self.items[upto:]
            self.head = 0
        else:
            for i in range(self.head, upto):
                self.items[i] = None
            self.head = upto
        return 0

    cdef list take_all(self):
        found = [call for call in self.items[self.head:] if call is not None]
        self.items = []
        self.head = 0
        return found


@cython.final
cdef class Batcher:
    """Calls wait here until a lane is free and takes a batch.

    Lane 0 carries settlements and claims, the others publishes; a group with anything pending stays in its lane.
    With one lane, it carries all.  Where `many` settlements and claims wait, another lane takes some of them, so that
    one request is at the server while the callers of the other run; with fewer, two requests would only cost more.
    Bounded: a batch ends at `max_rows` rows or `max_size` bytes.
    An operating call goes alone, when all that was made before it is over; what is made after it is held till then.
    """

    cdef readonly int lanes
    cdef readonly Py_ssize_t max_rows
    cdef readonly Py_ssize_t max_size
    cdef readonly Py_ssize_t many
    cdef Py_ssize_t limit
    cdef dict pins
    cdef list queues
    cdef Fifo shared
    cdef Fifo claims
    cdef set dedup_ids
    cdef list taken
    cdef list held
    cdef set held_groups
    cdef bint last_alone
    cdef bint barrier
    cdef bint operating
    cdef long long serial
    cdef long long made

    def __init__(self, int lanes, Py_ssize_t max_rows, Py_ssize_t max_size, Py_ssize_t many=256):
        self.lanes = lanes
        self.max_rows = max_rows
        self.many = many
        self.max_size = max_size
        self.pins = {}
        self.queues = [Fifo() for _ in range(lanes)]
        self.shared = Fifo()
        self.claims = Fifo()
        self.dedup_ids = set()
        self.taken = [None] * lanes
        self.held = []
        self.held_groups = set()

    cdef bint _has_waiting(self):
        cdef Fifo queue
        if self.claims.size() or self.shared.size() or self.held:
            return True
        for queue in self.queues:
            if queue.size():
                return True
        return False

    def waiting(self):
        """How many calls wait here."""
        cdef Fifo queue
        count = self.shared.size() + self.claims.size() + len(self.held)
        for queue in self.queues:
            count += queue.size()
        return count

    def has_work(self, int lane):
        """Whether a batch for `lane` may be filled."""
        if self.held and lane == 0:
            self._let_go()
        if (<Fifo>self.queues[lane]).size():
            return True
        if lane == 0 and (self.claims.size() or self._operates_next()):
            return True
        return (lane > 0 or self.lanes == 1) and (self.shared.size() > 0 or self._helps())

    def add(self, Call call not None):
        """Take in a call, behind those of its group that came before."""
        self._add(call)

    def add_all(self, calls):
        """Take in calls, one after another."""
        for call in calls:
            self._add(call)

    cdef int _add(self, Call call) except -1:
        self.made += 1
        call.made = self.made
        if self.barrier or call.kind == IS_OPERATE:
            self.barrier = True
            self.held.append(call)
        elif (self.held and self._is_held(call)) or (call.kind == IS_BUNDLE and not self._is_ready(<Bundle>call)):
            self._hold(call)
        else:
            self._enter(call)
        return 0

    cdef int _enter(self, Call call) except -1:
        cdef Pin pin
        if call.kind == IS_BUNDLE:
            return self._enter_bundle(<Bundle>call)
        if call.kind == IS_CLAIM:
            if (<Claim>call).tied is None:
                self.claims.append(call)
                return 0
            call = (<Claim>call).tied
        pin = self._pin(call, NO_LANE if call.kind == IS_PUBLISH else 0)
        if pin.lane == NO_LANE or pin.shared > 0:
            pin.shared += 1
            self.shared.append(call)
        else:
            (<Fifo>self.queues[pin.lane]).append(call)
        return 0

    # -- bundles ------------------------------------------------------------------------------------------
    # A bundle belongs to several groups and goes through lane 0.  It is held until none of them has calls in
    # another lane, and what is made after it for one of its groups is held behind it.

    cdef int _enter_bundle(self, Bundle bundle) except -1:
        for ack in bundle.acks:
            self._pin(<Call>ack, 0).lane = 0
        for publish in bundle.publishes:
            self._pin(<Call>publish, 0).lane = 0
        (<Fifo>self.queues[0]).append(bundle)
        return 0

    cdef Pin _pin(self, Call call, int lane):
        # The pin of its group; a new one goes to `lane`.
        cdef str group = _group_of(call)
        cdef PyObject* found = PyDict_GetItemWithError(self.pins, group)
        cdef Pin pin
        if found != NULL:
            pin = <Pin>found
        else:
            pin = Pin.__new__(Pin)
            pin.group = group
            pin.lane = lane
            pin.count = 0
            pin.shared = 0
            pin.serial = 0
            self.pins[group] = pin
        pin.count += 1
        call.pin = pin
        return pin

    cdef bint _is_ready(self, Bundle bundle) except -1:
        cdef Pin pin
        for group in bundle.groups:
            pin = self.pins.get(group)
            if pin is not None and (pin.lane != 0 or pin.shared > 0):
                return False
        return True

    cdef bint _is_held(self, Call call) except -1:
        if call.kind == IS_BUNDLE:
            return not self.held_groups.isdisjoint((<Bundle>call).groups)
        if call.kind == IS_CLAIM:
            if (<Claim>call).tied is None:
                return False
            call = (<Claim>call).tied
        group = _group_of(call)
        return group in self.held_groups

    cdef int _hold(self, Call call) except -1:
        self.held.append(call)
        if call.kind == IS_BUNDLE:
            self.held_groups |= (<Bundle>call).groups
        return 0

    cdef int _let_go(self) except -1:
        # What is held goes its usual way if it may; nothing passes an operating call.
        cdef list held = self.held
        cdef Call call
        if self.operating:
            return 0
        self.held = []
        self.held_groups = set()
        self.barrier = False
        for call in held:
            if self.barrier or call.kind == IS_OPERATE:
                self.barrier = True
                self.held.append(call)
            elif self._is_held(call) or (call.kind == IS_BUNDLE and not self._is_ready(<Bundle>call)):
                self._hold(call)
            else:
                self._enter(call)
        return 0

    cdef int _unpin_bundle(self, Bundle bundle) except -1:
        for ack in bundle.acks:
            self._unpin(<Call>ack)
        for publish in bundle.publishes:
            self._unpin(<Call>publish)
        return 0

    cdef bint _fill_bundle(self, Batch batch, Bundle bundle) except -1:
        # Whether it went; otherwise all calls of its groups wait for the next batch.
        cdef Settle ack
        cdef Publish publish
        cdef Pin pin
        goes = True
        for ack in bundle.acks:
            pin = self._refreshed(ack.pin)
            goes = goes and not pin.closed and pin.rank <= RANK_ACK and ack.lease.seq not in batch.settled
        for publish in bundle.publishes:
            pin = self._refreshed(publish.pin)
            goes = goes and not pin.closed and batch.takes_publish(publish)
            goes = goes and (publish.dedup_id is None or publish.dedup_id not in self.dedup_ids)
        if goes:
            batch.add_bundle(bundle)
            self.dedup_ids |= batch.dedup_ids
        for ack in bundle.acks:
            self._went(ack.pin, RANK_ACK, goes)
        for publish in bundle.publishes:
            self._went(publish.pin, RANK_PUBLISH, goes)
        return goes

    cdef void _went(self, Pin pin, int rank, bint goes):
        pin.closed = pin.closed or not goes
        pin.rank = rank

    cdef inline Pin _refreshed(self, Pin pin):
        # What a pin says of a batch holds for the one that is being filled.
        if pin.serial != self.serial:
            pin.serial = self.serial
            pin.rank = -1
            pin.closed = False
            pin.other_op = -1
        return pin

    # -- operating calls ----------------------------------------------------------------------------------
    # They go alone, when all that was made before is over; what is made after is held till then.

    cdef bint _operates_next(self):
        # Nothing waits, but for what is held behind an operating call, and nothing is in flight.
        return (self.barrier and not self.operating and (<Call>self.held[0]).kind == IS_OPERATE
                and not self.pins and not self.claims.size() and not any(self.taken))

    cdef Batch _take_operate(self):
        cdef Operate call
        cdef Batch batch
        while self._operates_next():
            call = self.held.pop(0)
            if not call._gone():
                batch = Batch(0)
                batch.operate = call
                batch.rows = 1
                self.operating = True
                self.taken[0] = batch
                return batch
            self._let_go()
        return None

    cdef int _operated(self, Operate call, bint again) except -1:
        # Over, or one step of it: what was held goes, then comes the next step.
        self.operating = False
        self._let_go()
        if again:
            self.held.insert(0, call)
            self.barrier = True
        return 0

    # -- batches ------------------------------------------------------------------------------------------

    def take(self, int lane):
        """Fill a batch for a free lane; None when there is nothing for it."""
        cdef Batch batch
        if self.held and lane == 0:
            self._let_go()
            batch = self._take_operate()
            if batch is not None:
                return batch
        batch = Batch(lane)
        batch.runs_kept = MAX_RUNS // 2 if self.claims.size() else 0
        self.serial += 1
        # Lane 0 leaves half of each kind to another lane, if that would be many.
        halves = lane == 0 and self.lanes > 1 and not self.held and self._settling() >= 2 * self.many and not self._is_helped()
        self.limit = min(self.max_rows, ((<Fifo>self.queues[0]).size() + 1) // 2) if halves else self.max_rows
        # Requests of a bundle alone take turns with claims, which cannot ride along with them.
        if not (lane == 0 and self.last_alone and self.claims.size()):
            # What is left in the lane's own queue may stand before calls of its group that are still shared.
            if self._fill(batch, self.queues[lane], False) and not batch.alone and self._takes_shared(batch):
                self._fill(batch, self.shared, True)
        if lane == 0:
            if not batch.alone:
                self.limit = min(self.max_rows, batch.rows + (self.claims.size() + 1) // 2) if halves else self.max_rows
                self._fill_claims(batch)
            self.last_alone = batch.alone
        elif self._helps() and self._borrow(batch):
            self._fill_claims(batch)
        if not batch.rows:
            return None
        self.taken[lane] = batch
        return batch

    # -- settlements and claims in two lanes ----------------------------------------------------------------

    cdef Py_ssize_t _settling(self):
        # How many settlements and claims wait.
        return (<Fifo>self.queues[0]).size() + self.claims.size()

    cdef bint _is_helped(self):
        # Whether another lane has settlements or claims under way.
        cdef Py_ssize_t lane
        cdef Batch batch
        for lane in range(1, self.lanes):
            batch = self.taken[lane]
            if batch is not None and (batch.acks or batch.others or batch.blocks):
                return True
        return False

    cdef bint _helps(self):
        return (self.lanes > 1 and self._settling() >= self.many and self.taken[0] is not None
                and not (<Batch>self.taken[0]).alone and not self.held and not self._is_helped())

    cdef bint _borrow(self, Batch batch) except -1:
        # Settlements that are all that there is of their groups; whether none was left.
        cdef Fifo queue = self.queues[0]
        cdef list kept = []
        cdef Py_ssize_t at = queue.head, end = len(queue.items)
        cdef Call call
        while at < end:
            call = <Call>queue.items[at]
            if (call.kind != IS_SETTLE or call.pin.count > 1 or call.pin.shared > 0 or call._gone()
                    or ((<Settle>call).then is not None and (<Settle>call).then._gone())):
                kept.append(call)
            elif self._is_full(batch, (<Settle>call)._size()):
                break
            elif self._goes(batch, call, self._refreshed(call.pin)):
                call.pin.lane = batch.lane
            else:
                kept.append(call)
            at += 1
        empty = at == end and not kept
        queue.cut(at, kept)
        return empty

    # -- how batches end ------------------------------------------------------------------------------------

    def unfinished(self, int lane):
        """The batch that was taken last for `lane`, as long as it is neither finished nor put back."""
        return self.taken[lane]

    def put_back(self, Batch batch not None):
        """The batch was not applied: its calls stand again before all that came later, still in its lane."""
        cdef Fifo queue = self.queues[batch.lane]
        cdef Block block
        cdef Claim claim
        alone = [call for call in batch.acks + batch.others + batch.pubs if not (<Call>call).bundled]
        queue.items = sorted(alone + batch.bundles, key=_when_made) + queue.items[queue.head:]
        queue.head = 0
        claims = [claim for block in batch.blocks for claim in block.claims if claim.tied is None]
        self.claims.items = claims + self.claims.items[self.claims.head:]
        self.claims.head = 0
        self.dedup_ids -= batch.dedup_ids
        self.taken[batch.lane] = None
        if batch.operate is not None:
            self.operating = False
            self.held.insert(0, batch.operate)

    cdef bint _takes_shared(self, Batch batch):
        # Few publishes ride along with settlements and claims: one commit instead of two.
        return batch.lane > 0 or self.lanes == 1 or (
            self.shared.size() <= FEW and (batch.rows > 0 or self.claims.size() > 0))

    cdef bint _is_full(self, Batch batch, Py_ssize_t size):
        return batch.rows >= self.limit or (batch.rows > 0 and batch.size + size > self.max_size)

    cdef bint _has_no_room(self, Batch batch, Bundle bundle):
        return batch.rows + len(bundle) > self.max_rows or batch.size + bundle.size > self.max_size

    cdef bint _fill(self, Batch batch, Fifo queue, bint shared) except -1:
        # Returns whether the queue was read to its end.
        cdef list items = queue.items, kept = []
        cdef Py_ssize_t at = queue.head, end = len(items), size
        cdef Call call
        cdef Pin pin
        # Else the first lane would take some calls of each group, and the rest could not go but after them.
        cdef bint parted = shared and batch.lane > 0 and self.lanes > 2 and end - at >= self.many
        while at < end:
            call = <Call>items[at]
            if call.kind == IS_BUNDLE:
                if call._gone():
                    self._unpin_bundle(<Bundle>call)
                elif batch.rows and ((<Bundle>call).alone or self._has_no_room(batch, <Bundle>call)):
                    break
                elif not self._fill_bundle(batch, <Bundle>call):
                    kept.append(call)
                at += 1
                if batch.alone:
                    break
                continue
            size = (<Publish>call).size if call.kind == IS_PUBLISH else (<Settle>call)._size()
            if self._is_full(batch, size):
                break
            pin = call.pin
            at += 1
            if shared:
                pin.shared -= 1
                if pin.lane == NO_LANE:
                    pin.lane = self._home_of(pin) if parted else batch.lane
                if pin.lane != batch.lane:
                    (<Fifo>self.queues[pin.lane]).append(call)
                    continue
            if call._gone() or (call.kind == IS_SETTLE and (<Settle>call).then is not None and (<Settle>call).then._gone()):
                self._unpin(call)
                if call.kind == IS_SETTLE and (<Settle>call).then is not None:
                    (<Settle>call).then.tied = None
            elif not self._goes(batch, call, self._refreshed(pin)):
                pin.closed = True
                if shared:
                    # Behind its group's other calls, which are in the lane's own queue from now on.
                    (<Fifo>self.queues[batch.lane]).append(call)
                else:
                    kept.append(call)
        queue.cut(at, kept)
        return at == end

    cdef int _home_of(self, Pin pin) except -1:
        # The lane to which a group goes when publishes of many groups wait.
        return <int>(1 + <size_t><Py_ssize_t>hash(pin.group) % <size_t>(self.lanes - 1))

    cdef bint _goes(self, Batch batch, Call call, Pin pin) except -1:
        # One by one the calls of a group take effect in the order in which they were made; a batch has a fixed
        # order of its own (acks, other settlements, publishes), so a call that would be inverted waits for the
        # next batch, and with it all later ones of its group.
        cdef Publish publish
        if pin.closed:
            return False
        if call.kind == IS_SETTLE:
            return self._goes_settle(batch, <Settle>call, pin)
        publish = <Publish>call
        # Nor does a dedup id go twice at once, in this batch or in another lane's: the first one wins.
        if publish.dedup_id is not None and publish.dedup_id in self.dedup_ids:
            return False
        if not batch.takes_publish(publish):
            return False
        batch.add_publish(publish, pin.rank == RANK_PUBLISH)
        if publish.dedup_id is not None:
            self.dedup_ids.add(publish.dedup_id)
        pin.rank = RANK_PUBLISH
        return True

    cdef bint _goes_settle(self, Batch batch, Settle call, Pin pin) except -1:
        cdef int rank = RANK_ACK if call.op == OP_ACK else RANK_OTHER
        if rank < pin.rank or call.lease.seq in batch.settled:
            return False
        if rank == RANK_OTHER and pin.rank == RANK_OTHER and not _is_alike(call, pin):
            return False
        if call.then is not None and not batch.add_claim(call.then):
            return False
        batch.add_settle(call)
        pin.rank = rank
        if rank == RANK_OTHER:
            pin.other_op = call.op
            pin.other_token = call.lease.token
            pin.other_many = <PyObject*>call.many
        return True

    cdef int _fill_claims(self, Batch batch) except -1:
        cdef Py_ssize_t at = self.claims.head, end = len(self.claims.items)
        cdef list kept = []
        cdef Claim call
        while at < end:
            call = <Claim>self.claims.items[at]
            if batch.rows >= self.limit:
                break
            at += 1
            if not call._gone() and not batch.add_claim(call):
                kept.append(call)
        self.claims.cut(at, kept)
        return 0

    def finish(self, Batch batch not None):
        """The batch is over, however it ended: its groups may move to other lanes."""
        cdef Call call
        for call in batch.acks:
            self._unpin(call)
        for call in batch.others:
            self._unpin(call)
        for call in batch.pubs:
            self._unpin(call)
        if batch.dedup_ids:
            self.dedup_ids -= batch.dedup_ids
        if self.taken[batch.lane] is batch:
            self.taken[batch.lane] = None
            if batch.operate is not None:
                self._operated(batch.operate, batch.operate.goes_on and not batch.operate._gone())

    cdef int _unpin(self, Call call) except -1:
        cdef Pin pin = call.pin
        pin.count -= 1
        if pin.count == 0:
            del self.pins[pin.group]
        return 0

    def drain(self):
        """Remove and return all calls that wait (a tied claim comes as its settlement)."""
        cdef Fifo queue
        cdef Call call
        found = self.shared.take_all()
        for call in found:
            self._forget(call, True)
        for queue in self.queues:
            rest = queue.take_all()
            for call in rest:
                self._forget(call, False)
            found += rest
        found += self.claims.take_all() + self.held
        self.held = []
        self.held_groups = set()
        self.barrier = self.operating
        return found

    def abort(self):
        """Remove and return all calls that wait and those that are on their way."""
        found = self.drain()
        for batch in self.taken:
            if batch is not None:
                found += (<Batch>batch).calls()
                self.finish(batch)
        return found

    def expire(self, double now, double fresh=0.0):
        """Remove and return the calls whose deadline passed while they waited: they were never sent.

        Those that have none yet get `fresh`.
        """
        cdef Fifo queue
        cdef Call call
        if fresh:
            for queue in (self.shared, self.claims, *self.queues):
                for call in queue.items[queue.head:]:
                    call._stamp(fresh)
            for call in self.held:
                call._stamp(fresh)
        found = self._expired(self.shared, now, True) + self._expired(self.claims, now, False)
        for queue in self.queues:
            found += self._expired(queue, now, False)
        if self.held:
            late = [call for call in self.held if (<Call>call).deadline <= now]
            if late:
                self.held = [call for call in self.held if (<Call>call).deadline > now]
                self._let_go()
                found += late
        return found

    cdef list _expired(self, Fifo queue, double now, bint shared):
        # Calls do not stand in the order of their deadlines: some moved here from another queue.
        cdef list found = [], kept = []
        cdef Py_ssize_t at, end = len(queue.items)
        cdef Call call
        for at in range(queue.head, end):
            if (<Call>queue.items[at]).deadline <= now:
                break
        else:
            return found
        for at in range(queue.head, end):
            call = <Call>queue.items[at]
            if call.deadline <= now:
                found.append(call)
                self._forget(call, shared)
            else:
                kept.append(call)
        queue.cut(end, kept)
        return found

    cdef int _forget(self, Call call, bint shared) except -1:
        if call.kind == IS_CLAIM:
            return 0
        if call.kind == IS_BUNDLE:
            return self._unpin_bundle(<Bundle>call)
        if shared:
            call.pin.shared -= 1
        return self._unpin(call)


cdef bint _is_alike(Settle call, Pin other):
    # Of one run, and both extensions or both deaths: done together they are as done one by one.  Or parts of one call
    # that puts several back: the first of the run takes along what comes after it, and none of them is lost by that.
    if call.op != other.other_op or not call.lease._turn or call.lease.token != other.other_token:
        return False
    return call.op == OP_EXTEND or call.op == OP_DEAD or (call.many is not None and <PyObject*>call.many == other.other_many)


def _when_made(Call call):
    return call.made


cdef str _group_of(Call call):
    return (<Publish>call).group if call.kind == IS_PUBLISH else (<Settle>call).lease.group_id
