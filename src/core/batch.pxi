# Batch: one request.  Calls in, program out; rows in, outcomes out.

# The statements of a program, by place in Texts.
STATEMENTS = (
    "lane_step", "lane_step_publishing", "clock_step", "ack_verdict", "guard", "ack_delete", "settle_verdict",
    "dead_insert", "dead_delete", "settle_apply", "groups_ready", "groups_drain", "publish_plain", "publish_groups",
    "dedup_prune", "dedup_take", "dedup_guard", "publish_full", "publish_full_groups", "dedup_seqs",
    "dedup_seqs_again", "wake_due",
    "claim_any", "claim_1", "claim_2", "claim_3", "claim_4", "claim_heads", "claim_read", "tidy", "tidy_high",
    "outcome", "outcome_high", "outcome_again",
    "run_claim", "run_read", "run_acks", "run_ack_verdict", "run_settle_verdict", "run_rest", "run_extend",
    "claim_list", "claim_prefix",
)

cdef enum:
    LANE_STEP, LANE_STEP_PUBLISHING, CLOCK_STEP, ACK_VERDICT, GUARD, ACK_DELETE, SETTLE_VERDICT
    DEAD_INSERT, DEAD_DELETE, SETTLE_APPLY, GROUPS_READY, GROUPS_DRAIN, PUBLISH_PLAIN, PUBLISH_GROUPS
    DEDUP_PRUNE, DEDUP_TAKE, DEDUP_GUARD, PUBLISH_FULL, PUBLISH_FULL_GROUPS, DEDUP_SEQS, DEDUP_SEQS_AGAIN, WAKE_DUE
    CLAIM_ANY, CLAIM_1, CLAIM_2, CLAIM_3, CLAIM_4, CLAIM_HEADS, CLAIM_READ, TIDY, TIDY_HIGH
    OUTCOME, OUTCOME_HIGH, OUTCOME_AGAIN
    RUN_CLAIM, RUN_READ, RUN_ACKS, RUN_ACK_VERDICT, RUN_SETTLE_VERDICT, RUN_REST, RUN_EXTEND
    CLAIM_LIST, CLAIM_PREFIX

MAX_BLOCKS = 8
# Each run is a block; these are counted for themselves.
MAX_RUNS = 16

cdef enum:
    # Groups that a claim marks as claimable beyond those it may want.
    WAKE_MORE = 256


@cython.final
cdef class Texts:
    """The statements of one queue as a program holds them: plain text for SQLite, ready-made JSON for HTTP.

    `operate` holds those of the operating calls; each takes as many of their common parameters as it names.
    """

    cdef list texts
    cdef readonly list names
    cdef readonly bint as_json
    cdef dict operate

    def __init__(self, dict statements, bint as_json, dict operate=None):
        self.as_json = as_json
        self.names = list(STATEMENTS)
        self.texts = [_Fragment(_dumps(statements[name])) if as_json else statements[name] for name in STATEMENTS]
        self.operate = {
            name: (_Fragment(_dumps(text)) if as_json else text, max(map(int, re.findall(r"\?(\d)", text)), default=0))
            for name, text in (operate or {}).items()
        }


@cython.final
cdef class Block:
    """The claims of a batch that share a visibility, a min_priority and their groups: one statement, one token.  Or one run."""

    cdef double visibility
    cdef int min_priority
    cdef Py_ssize_t limit
    cdef bint run
    cdef tuple only
    cdef list claims
    cdef str token
    cdef str worker
    cdef Py_ssize_t slot


@cython.final
cdef class Outcome:
    """What a reply said beyond the calls' own results.

    `hint` tells of work that is left; `fresh` of work that is there after nothing but publishes: whether it stays there
    is another matter, since other processes are woken as well.
    `unfilled` claims found nothing (short tells of which min_priority); `give_back` leases that no caller takes;
    `refused` claims whose `ack=` lease was lost; `late` pairs of (claim, leases) that a resend let run down;
    `goes_on` an operating call that has steps left.
    """

    cdef readonly double t
    cdef readonly object hint
    cdef readonly object fresh
    cdef readonly list unfilled
    cdef readonly list short
    cdef readonly list give_back
    cdef readonly list refused
    cdef readonly list late
    cdef readonly Operate goes_on

    def __init__(self):
        self.unfilled = []
        self.short = []
        self.give_back = []
        self.refused = []
        self.late = []


@cython.final
cdef class Batch:
    """Calls that go in one transaction: settlements, then publishes, then claims; or one operating call."""

    cdef readonly int lane
    cdef readonly Py_ssize_t rows
    cdef readonly Py_ssize_t size
    cdef list acks
    cdef list others
    cdef list pubs
    cdef list blocks
    cdef Py_ssize_t runs
    cdef Py_ssize_t runs_kept
    cdef list bundles
    cdef readonly bint alone
    cdef readonly Operate operate
    cdef set settled
    cdef set dedup_ids
    cdef dict pub_groups
    cdef bint full
    cdef public object tidy
    cdef readonly long long number
    cdef readonly Outcome outcome
    cdef list program_
    cdef list names_
    cdef Py_ssize_t dedup_slot
    cdef list dedup_read
    cdef object ack_rows
    cdef bint ties

    def __init__(self, int lane=0):
        self.lane = lane
        self.acks = []
        self.others = []
        self.pubs = []
        self.blocks = []
        self.bundles = []
        self.settled = set()
        self.dedup_ids = set()
        self.pub_groups = {}
        self.dedup_slot = -1

    def __len__(self):
        return self.rows

    @property
    def statement_names(self):
        """The name of each statement of the program, for error messages."""
        return self.names_

    @property
    def claims_only(self):
        """Whether the batch settles and publishes nothing (in the queue)."""
        return not (self.acks or self.others or self.pubs) and self.operate is None

    def calls(self):
        """All calls of the batch that a caller waits for (of a claim and its `ack=`, the claim)."""
        cdef Settle settle
        found = [settle for settle in self.acks if settle.then is None] + self.others + self.pubs
        for block in self.blocks:
            found += (<Block>block).claims
        if self.operate is not None:
            found.append(self.operate)
        elif self._table() is not None:
            found.append(self._table())
        return found

    cdef Bundle _table(self):
        # The call on a table of the user's own, which goes alone; or None.
        cdef Bundle bundle
        if self.alone and self.bundles:
            bundle = self.bundles[0]
            if bundle.verdict is not None:
                return bundle
        return None

    def reject(self, error):
        """Give every caller the error, each an own copy (a traceback belongs to one raise)."""
        cdef Call call
        cdef Settle ack
        if isinstance(error, Published):
            for call in self.pubs:
                call._succeed(error.seq)
            return
        if isinstance(error, NotHeld):
            if self._table() is not None:
                self._table()._fail(self._table().verdict.lost)
            for ack in self.acks:
                if error.lost is None or ack.place in error.lost:
                    ack._lose()
                elif not error.lost and ack.lease._turn:
                    # No lease was lost: then the acks of a run were out of its order.
                    ack._lose(True)
                else:
                    ack._succeed(None)
            return
        for call in self.calls():
            if not call._gone():
                call._fail(_copy(error))
            elif call.kind == IS_CLAIM:
                (<Claim>call).tied = None

    def reject_claims(self, error):
        """Give the error to the callers of claims: what comes for them goes back."""
        cdef Block block
        cdef Call call
        for block in self.blocks:
            for call in block.claims:
                if not call._gone():
                    call._fail(_copy(error))

    def stamp(self, double deadline):
        """Give the calls a deadline that have none yet."""
        cdef Call call
        for call in self.calls():
            call._stamp(deadline)

    def all_expired(self, double now):
        """Whether no caller is left whose deadline is still to come."""
        cdef Call call
        for call in self.calls():
            if call.deadline > now and (call.future is not None or call.many is not None) and not call._gone():
                return False
        return True

    @property
    def is_waited_for(self):
        """Whether it ever had a caller; leases that are given back have none."""
        cdef Call call
        for call in self.calls():
            if call.future is not None or call.many is not None:
                return True
        return False

    def given_back(self):
        """The leases that it gives back, and that nobody waits for."""
        cdef Settle call
        return [call.lease for call in self.others if call.op == OP_GIVE_BACK and call.future is None]

    def expire(self, double now, error):
        """Give the error to the callers whose deadline has passed."""
        cdef Call call
        for call in self.calls():
            if call.deadline <= now and not call._gone():
                call._fail(_copy(error))

    # -- filling ------------------------------------------------------------------------------------------

    cdef int add_settle(self, Settle call) except -1:
        if call.op == OP_ACK:
            self.acks.append(call)
        else:
            self.others.append(call)
        self.settled.add(call.lease.seq)
        self.rows += 1
        self.size += call._size()
        return 0

    cdef int add_publish(self, Publish call, bint seen=False) except -1:
        # `seen`: one of its group is in already.
        self.pubs.append(call)
        if call.dedup_id is not None:
            self.dedup_ids.add(call.dedup_id)
        if not seen and call.group not in self.pub_groups:
            self.pub_groups[call.group] = call.priority
        if call._full():
            self.full = True
            self.ties = self.ties or call.tied is not None
        self.rows += 1
        self.size += call.size
        return 0

    cdef bint takes_publish(self, Publish call) except -1:
        # A row that dedup, or a lost ack, may suppress must not set the priority of its group for another.
        if (self.dedup_ids or self.ties) and call.group in self.pub_groups and self.pub_groups[call.group] != call.priority:
            return False
        return True

    cdef int add_bundle(self, Bundle bundle) except -1:
        for ack in bundle.acks:
            self.add_settle(ack)
        for publish in bundle.publishes:
            self.add_publish(publish)
        self.bundles.append(bundle)
        self.alone = bundle.alone
        if bundle.verdict is not None:
            self.rows += 1
        return 0

    cdef Block block_for(self, Claim call):
        cdef Block block
        if call.run:
            # Some places are kept for runs whose claim has no `ack=`: those that have one are taken first.
            if self.runs >= MAX_RUNS - (0 if call.tied is None else self.runs_kept):
                return None
            self.runs += 1
            return self.new_block(call)
        for block in self.blocks:
            if (not block.run and block.visibility == call.visibility and block.min_priority == call.min_priority
                    and (block.only is call.only or block.only == call.only)):
                return block
        if len(self.blocks) - self.runs >= MAX_BLOCKS:
            return None
        return self.new_block(call)

    cdef Block new_block(self, Claim call):
        cdef Block block = Block.__new__(Block)
        block.visibility = call.visibility
        block.min_priority = call.min_priority
        block.worker = call.worker
        block.run = call.run
        block.only = call.only
        block.claims = []
        self.blocks.append(block)
        return block

    cdef bint add_claim(self, Claim call) except -1:
        cdef Block block = self.block_for(call)
        if block is None:
            return False
        block.claims.append(call)
        block.limit += call.limit
        if block.worker is not None and block.worker != call.worker:
            block.worker = None
        self.rows += call.limit
        return True

    # -- the program --------------------------------------------------------------------------------------

    def program(self, Texts texts not None, str lane not None, long long n, double now, double window, str name not None):
        """The statements of this request with their parameters.

        The first call fixes rows, number and tokens; a later one only takes a fresh `now`, so that sent again the
        request is the same one, and times still count from when it is applied.
        """
        if self.program_ is None:
            self._make_program(texts, lane, n, window, name)
            self.number = n
        self.program_[0][3] = now
        self.program_[1][1] = now
        return self.program_

    cdef int _make_program(self, Texts texts, str lane, long long n, double window, str name) except -1:
        cdef list out = []
        self.program_ = out
        self.names_ = []
        self._say(texts, LANE_STEP_PUBLISHING if self.pubs else LANE_STEP, [lane, n, 0.0])
        self._say(texts, CLOCK_STEP, [0.0, 2 if self.blocks or self._table() is not None else 0, self._least_step()])
        if self.acks or self.others:
            self._make_settlements(texts, lane)
        table = self._table()
        if table is not None:
            for said, text, parameters in (<Bundle>table).own:
                self.names_.append(said)
                out.append([text, lane, *parameters])
        if self.pubs:
            self._make_publishes(texts, lane, window)
        if self.blocks:
            self._make_claims(texts, lane, n, name)
        for bundle in self.bundles:
            self._make_own((<Bundle>bundle).statements)
        if self.tidy is not None and not self.alone:
            if self.tidy > 0:
                self._say(texts, TIDY_HIGH, [self.tidy])
            else:
                self._say(texts, TIDY, [])
        if self.operate is not None:
            self._make_operate(texts, lane)
        elif table is not None:
            self.names_.append("table_outcome")
            out.append([(<Bundle>table).verdict.outcome, lane, *(<Bundle>table).verdict.parameters])
        else:
            self._say(texts, OUTCOME_HIGH if self._wants_priority() else OUTCOME, [lane])
        return 0

    cdef bint _wants_priority(self):
        cdef Block block
        for block in self.blocks:
            if block.min_priority > 0:
                return True
        return False

    cdef double _least_step(self):
        # A deferred message goes behind all that are due now, also while the clock stands.
        cdef Settle call
        for call in self.others:
            if call.op == OP_DEFER:
                return 1e-6
        return 0.0

    cdef int _say(self, Texts texts, int statement, list params) except -1:
        self.names_.append(texts.names[statement])
        self.program_.append([texts.texts[statement]] + params)
        return 0

    cdef int _make_own(self, list statements) except -1:
        cdef Py_ssize_t at = 0
        for statement in statements:
            self.names_.append(f"with_statements[{at}]")
            self.program_.append(statement)
            at += 1
        return 0

    cdef int _make_operate(self, Texts texts, str lane) except -1:
        cdef list parameters = self.operate._parameters(lane)
        for name in (*OPERATIONS[self.operate.operation], "operate_forget"):
            self._say_operate(texts, name, parameters)
        self._say_operate(texts, "operate_outcome", parameters)
        return 0

    cdef int _say_operate(self, Texts texts, str name, list parameters) except -1:
        text, count = texts.operate[name]
        self.names_.append(name)
        self.program_.append([text] + parameters[:count])
        return 0

    cdef int _make_settlements(self, Texts texts, str lane) except -1:
        cdef Settle call
        cdef dict groups = {}
        cdef list rows
        if self.acks:
            runs = False
            for call in self.acks:
                runs = runs or call.lease._turn != 0
                groups[call.lease.group_id] = None
            self.ack_rows = text = self._ack_rows(texts.as_json)
            self._say(texts, ACK_VERDICT, [text, lane])
            if runs:
                self._say(texts, RUN_ACKS, [text, lane])
                self._say(texts, RUN_ACK_VERDICT, [text, lane])
            if self.alone:
                self._say(texts, GUARD, [lane])
            self._say(texts, ACK_DELETE, [text, lane])
        if self.others:
            rows = []
            dead = runs = False
            for call in self.others:
                rows.append((call.lease.seq, call._token(), call.lease.group_id, call.op, call._argument()))
                if call.lease._turn:
                    runs = True
                    rows[-1] += (call.lease._turn,)
                groups[call.lease.group_id] = None
                dead = dead or call.op == OP_DEAD
            text = _json(rows)
            low, high = _min_seq(self.others), _max_seq(self.others)
            self._say(texts, SETTLE_VERDICT, [text, lane])
            if runs:
                self._say(texts, RUN_SETTLE_VERDICT, [text, lane])
                self._say(texts, RUN_REST, [text, lane])
            if dead:
                self._say(texts, DEAD_INSERT, [text, lane])
                self._say(texts, DEAD_DELETE, [text, lane])
            self._say(texts, SETTLE_APPLY, [text, lane, low, high])
            if runs:
                self._say(texts, RUN_EXTEND, [text, lane])
        text = _json([(group,) for group in groups])
        self._say(texts, GROUPS_READY, [text])
        self._say(texts, GROUPS_DRAIN, [])
        return 0

    cdef int _make_publishes(self, Texts texts, str lane, double window) except -1:
        cdef Publish call
        cdef str groups = _json(list(self.pub_groups.items()))
        cdef str rows
        if not self.full:
            self._say(texts, PUBLISH_PLAIN, [self._plain_rows(texts.as_json), lane])
            self._say(texts, PUBLISH_GROUPS, [groups])
            return 0
        rows = _json([(call.group, call.text, call.rank, call.delay, call.headers, call.dedup_id,
                       None if call.tied is None else call.tied.place) for call in self.pubs])
        if self.dedup_ids:
            self._say(texts, DEDUP_PRUNE, [])
            self._say(texts, DEDUP_TAKE, [rows, lane, window])
            if self.dedup_id is not None:
                self._say(texts, DEDUP_GUARD, [rows, lane])
        self._say(texts, PUBLISH_FULL, [rows, lane])
        self._say(texts, PUBLISH_FULL_GROUPS, [groups])
        self._say(texts, GROUPS_READY, [groups])
        if self.dedup_ids:
            self.dedup_slot = len(self.program_)
            rows = _json([(None,) * 5 + (call.dedup_id,) for call in self.pubs])
            self.dedup_read = [texts.texts[DEDUP_SEQS_AGAIN], rows]
            self._say(texts, DEDUP_SEQS, [rows])
        return 0

    cdef object _plain_rows(self, bint inside):
        # [[group,event],..]
        cdef _Rows rows = _Rows.__new__(_Rows, inside)
        cdef Publish call
        for call in self.pubs:
            rows.open_row()
            rows.add_str(call.group)
            rows.next_value()
            rows.add_string(PyBytes_AS_STRING(call.data), PyBytes_GET_SIZE(call.data))
            rows.close_row()
        return rows.end()

    cdef object _ack_rows(self, bint inside):
        # [[seq,token,group],..]; of a run's, its turn as well.
        cdef _Rows rows = _Rows.__new__(_Rows, inside)
        cdef Settle call
        cdef Py_ssize_t place = 0
        for call in self.acks:
            call.place = place
            place += 1
            rows.open_row()
            rows.add_int(call.lease.seq)
            rows.next_value()
            rows.add_str(call._token())
            rows.next_value()
            rows.add_str(call.lease.group_id)
            if call.lease._turn:
                rows.next_value()
                rows.add_int(call.lease._turn)
            rows.close_row()
        return rows.end()

    cdef int _make_claims(self, Texts texts, str lane, long long n, str name) except -1:
        cdef Block block
        cdef Py_ssize_t place = 0, wanted = 0
        for block in self.blocks:
            wanted += block.limit
        self._say(texts, WAKE_DUE, [wanted + WAKE_MORE])
        for block in self.blocks:
            # Unique and known beforehand: the lane, the number in it, the place in the request.
            block.token = f"~{name if block.worker is None else block.worker}:{lane}.{n}.{place}"
            place += 1
            if block.run:
                block.token += "+"
            if block.only is None:
                self._say(texts, CLAIM_ANY + block.min_priority, [1 if block.run else block.limit, block.visibility])
            else:
                self._say(texts, CLAIM_LIST if block.only[0] == "list" else CLAIM_PREFIX,
                          [1 if block.run else block.limit, block.visibility, block.only[1], block.min_priority])
            block.slot = len(self.program_)
            if block.run:
                self._say(texts, RUN_CLAIM, [block.token, block.visibility, block.limit])
            else:
                self._say(texts, CLAIM_HEADS, [block.token, block.visibility])
        return 0

    def empty_program(self, Texts texts not None, str lane not None, long long n, double now):
        """A request that does nothing but spend the number: accepted, this batch was never applied nor will be."""
        return [[texts.texts[LANE_STEP], lane, n, now], [texts.texts[CLOCK_STEP], now, 0, 0.0],
                [texts.texts[OUTCOME], lane]]

    def forget_program(self):
        """Let the next `program` be made anew, for another lane or number; only when nothing was applied."""
        self.program_ = None
        self.number = 0
        self.dedup_slot = -1

    def lost_read(self):
        """The parameter of the read that tells which acks of a refused bundle were lost."""
        return self.ack_rows

    @property
    def dedup_id(self):
        """The id that refuses it whole if it stands: of a message that brings statements of the user's; or None."""
        cdef Bundle bundle
        cdef Publish call
        if self.alone and self.bundles:
            bundle = self.bundles[0]
            if bundle.statements and bundle.verdict is None and not bundle.acks:
                call = bundle.publishes[0]
                return call.dedup_id
        return None

    @property
    def acks_count(self):
        """How many acks it holds."""
        return len(self.acks)

    @property
    def may_be_early(self):
        """Whether an ack of it may be refused though its lease is not lost: one of a run."""
        cdef Settle ack
        for ack in self.acks:
            if ack.lease._turn:
                return True
        return False

    def reread(self, Texts texts not None, str lane not None):
        """Plain reads that give the results again after the request was found applied, and their slots."""
        cdef Block block
        outcome = texts.texts[OUTCOME_AGAIN] if self.operate is None else texts.operate["operate_outcome_again"][0]
        reads = [(len(self.names_) - 1, [outcome, lane])]
        if self._table() is not None:
            verdict = self._table().verdict
            reads = [(len(self.names_) - 1, [verdict.again, lane, *verdict.parameters])]
        if self.dedup_slot >= 0:
            reads.append((self.dedup_slot, self.dedup_read))
        for block in self.blocks:
            reads.append((block.slot, [texts.texts[RUN_READ if block.run else CLAIM_READ], block.token]))
        return reads

    # -- the outcomes -------------------------------------------------------------------------------------

    def check(self, list slots not None, long long n):
        """Raise `GarbledReply` unless `slots` can be the rows of this program; changes nothing.

        Returns whether they are whole.  Of a reply, not: the server gave no rows of a statement that has some, and
        they are still to be read.  Of what was read again, not: the lane's row is gone or has another number, so
        n was never applied.
        """
        cdef Block block
        if len(slots) != len(self.names_):
            raise GarbledReply(f"{len(slots)} results for {len(self.names_)} statements")
        out = slots[len(slots) - 1]
        if not out:
            return False
        for block in self.blocks:
            if slots[block.slot] is None:
                return False
        if self.dedup_slot >= 0 and not slots[self.dedup_slot]:
            return False
        row = self._end_row(out[0])
        if type(row[0]) is not int or type(row[4]) not in (int, float):
            raise GarbledReply("the lane's row is not what it should be")
        if row[0] != n:
            return False
        if self.pubs and (type(row[1]) is not int or not 0 <= row[1] < (1 << 63) - len(self.pubs)):
            raise GarbledReply("no base for the seqs")
        if row[5] is not None and (type(row[5]) is not int or not -1 <= row[5] < 1000):
            raise GarbledReply("an impossible hint")
        if self.operate is not None:
            _check_operated(row)
            return True
        _positions(row[2], len(self.acks), True)
        if self._table() is None:
            _positions(row[3], len(self.others))
        for block in self.blocks:
            for row in slots[block.slot]:
                if block.run:
                    _check_run_row(row)
                else:
                    _check_lease_row(row)
        if self.dedup_slot >= 0:
            _known_seqs(slots[self.dedup_slot], len(self.pubs))
        return True

    cdef list _end_row(self, row):
        # n, base, the lost acks, the other lost settlements, t, the hint; of an operating call as it defines them.
        cdef Bundle table = self._table()
        if type(row) is not list or len(<list>row) != (3 if self.operate is None else 6) + (table is not None):
            raise GarbledReply("the lane's row is not what it should be")
        if self.operate is not None:
            return <list>row
        try:
            found = _loads(row[0])
        except (ValueError, TypeError) as error:
            raise GarbledReply(f"the lane's row: {error}") from None
        if type(found) is not list or len(<list>found) != 4:
            raise GarbledReply("the lane's row is not what it should be")
        return <list>found + (<list>row)[1:]

    def resolve(self, list slots not None, double now, decode, clock):
        """Give each call its outcome; `slots` were checked.  `now` is the queue's time as estimated here."""
        cdef Outcome outcome = Outcome()
        cdef list row = self._end_row(slots[len(slots) - 1][0])
        outcome.t = row[4]
        if self.acks or self.others or self.blocks or self.operate is not None:
            outcome.hint = row[5]
        elif self.pubs:
            outcome.fresh = row[5]
        if self.operate is not None:
            self.operate._take_in(row)
            outcome.goes_on = self.operate if self.operate.goes_on else None
            self.outcome = outcome
            return outcome
        if self._table() is not None:
            self._table()._told(row[6])
        self._resolve_acks(_positions(row[2], len(self.acks), True))
        if self.others:
            self._resolve_others(_positions(row[3], len(self.others)), outcome.t)
        if self.pubs:
            known = _known_seqs(slots[self.dedup_slot], len(self.pubs)) if self.dedup_slot >= 0 else {}
            self._resolve_publishes(row[1], known)
        for block in self.blocks:
            self._resolve_block(block, slots[(<Block>block).slot], outcome, max(now, outcome.t), decode, clock)
        self.outcome = outcome
        return outcome

    cdef int _resolve_acks(self, set lost) except -1:
        cdef Settle call
        cdef Py_ssize_t pos = 0
        for call in self.acks:
            if pos in lost:
                call._lose(-1 - pos in lost)
            elif call.then is None:
                call._succeed(None)
            pos += 1
        return 0

    cdef int _resolve_others(self, set lost, double t) except -1:
        cdef Settle call
        cdef Py_ssize_t pos = 0
        for call in self.others:
            if pos in lost:
                call._lose()
            elif call.op == OP_EXTEND:
                call.lease._extend(t + <double>call.argument)
                call._succeed(t + <double>call.argument)
            else:
                call._succeed(None)
            pos += 1
        return 0

    cdef int _resolve_publishes(self, long long base, dict known) except -1:
        cdef Publish call
        cdef long long pos = 0
        for call in self.pubs:
            if known and pos in known:
                call._succeed(known[pos])
            else:
                call._succeed(base + 1 + pos)
            pos += 1
        return 0

    cdef int _resolve_block(self, Block block, list rows, Outcome outcome, double now, decode, clock) except -1:
        cdef Claim call
        cdef Py_ssize_t at = 0, count = len(rows), share
        cdef Lease lease
        cdef list leases
        # RETURNING gives them in no order.
        if block.run:
            leases = _run_from_rows(sorted(rows, key=_place_of), block.token, decode, clock)
        else:
            leases = [_lease_from_row(row, block.token, decode, clock) for row in sorted(rows, key=_seq_of)]
        # A run that is short tells nothing of other groups, nor does a claim of some.
        if count < (1 if block.run else block.limit) and block.only is None:
            outcome.short.append(block.min_priority)
        for call in block.claims:
            if call.tied_lost:
                outcome.refused.append(call)
                continue
            if call._gone():
                call.tied = None
                continue
            if at >= count:
                outcome.unfilled.append(call)
                continue
            share = min(call.limit, count - at)
            for lease in leases[at:at + share]:
                lease._worker = call.worker
            # Applied late, after a lost reply: less than half of the lease is left, so it is extended first.
            if (<Lease>leases[at])._ends() - now < block.visibility / 2:
                outcome.late.append((call, leases[at:at + share]))
            elif call.wants_list:
                call._succeed(leases[at:at + share])
            else:
                call._succeed(leases[at])
            at += share
        outcome.give_back += leases[at:]
        return 0


cdef object _copy(object error):
    made = copy_error(error)
    made.__cause__ = error.__cause__
    return made


cdef str _json(list rows):
    return (<bytes>_dumps(rows)).decode()


cdef object _min_seq(list calls):
    return min([(<Settle>call).lease.seq for call in calls])


cdef object _max_seq(list calls):
    return max([(<Settle>call).lease.seq for call in calls])


cdef set _positions(object found, Py_ssize_t count, bint runs=False):
    # Of an ack that is out of the order of its run, -1-position is there as well.
    if found is None:
        if count:
            raise GarbledReply("no verdict on the settlements")
        return set()
    if type(found) is not list:
        raise GarbledReply("the verdict on the settlements is no list")
    for pos in <list>found:
        if type(pos) is not int or not -count <= pos < count or (pos < 0 and not (runs and -1 - pos in <list>found)):
            raise GarbledReply("the verdict on the settlements names what is not there")
    return set(found)


cdef dict _known_seqs(list rows, Py_ssize_t count):
    # The seqs of messages with a dedup id, by their place in the batch; of one whose ack was lost there is none.
    cdef dict found = {}
    try:
        known = _loads(rows[0][0])
        for place, seq in known.items():
            if seq is not None:
                found[int(place)] = seq
    except (ValueError, TypeError, AttributeError, IndexError) as error:
        raise GarbledReply(f"the seqs of messages with a dedup id: {error}") from None
    for place, seq in found.items():
        if not 0 <= place < count or type(seq) is not int or not -(1 << 63) <= seq < (1 << 63):
            raise GarbledReply("the seqs of messages with a dedup id are not what they should be")
    return found


def _seq_of(row):
    return row[0]


def _place_of(row):
    # In a group.
    return row[4], row[10], row[0]


cdef int _check_run_row(object row) except -1:
    # One of a claimed message, and its due time.
    if type(row) is not list or len(<list>row) != 11 or type(row[9]) is not int or type(row[10]) not in (int, float):
        raise GarbledReply("a row of a run is not what it should be")
    return _check_lease_row((<list>row)[:10])


cdef int _check_lease_row(object row) except -1:
    if type(row) is not list or len(<list>row) != 10:
        raise GarbledReply("a claimed row is not what it should be")
    cdef list r = <list>row
    for i in (0, 3, 4):
        if type(r[i]) is not int or not -(1 << 63) <= r[i] < (1 << 63):
            raise GarbledReply("a claimed row has no number where one belongs")
    if r[3] >= (1 << 31) or r[3] < -(1 << 31):
        raise GarbledReply("a claimed row has an impossible attempt count")
    if type(r[1]) is not str or type(r[2]) is not str or type(r[5]) not in (str, type(None)):
        raise GarbledReply("a claimed row has no text where it belongs")
    if type(r[7]) not in (int, float) or type(r[6]) not in (int, float, type(None)):
        raise GarbledReply("a claimed row has no time where one belongs")
    if type(r[8]) not in (int, type(None)) or type(r[9]) not in (int, type(None)):
        raise GarbledReply("a claimed row has no group")
    if r[8] is not None and not 0 <= r[8] < 1000:
        raise GarbledReply("a claimed row has an impossible priority")
    if r[9] is not None and not -(1 << 63) <= r[9] < (1 << 63):
        raise GarbledReply("a claimed row has an impossible turn")
    return 0
