/* One approval and everybody who may end it (src/perdure/engine: resolve, sweep, signal, begin, lease).
 *
 * Two people decide, a deadline expires, somebody cancels the execution, and a worker begins the call it is for, twice
 * over, as after a lost reply. Each `atomic` block is one transaction of the engine.
 *
 * Held: exactly one decision stands and everybody else is told so; nothing begins without a yes to exactly what was
 * shown; one yes authorises one effect; nothing begins after a cancel was acknowledged.
 *
 * Actions: decide signal begin record
 */

mtype = { OPEN, APPROVED, REJECTED, EXPIRED, CANCELLED };

mtype point = OPEN;
byte winners = 0;
byte told_lost = 0;
byte deciders = 0;
bool consumed = false;
byte begun = 0;
bool cancelling = false;
byte waiting_for = 1;       /* digest of tool, arguments and step of the call that waits */
byte agreed_to = 0;         /* the digest that the winner had been shown */

proctype person(mtype answer) {
    byte shown = waiting_for;           /* get_status */
    atomic {                            /* decide, with the digest that was shown */
        deciders++;
        if
#ifdef MUTANT_last_decision_wins
        :: point != CANCELLED && shown == waiting_for ->
#elif defined(MUTANT_digest_unchecked)
        :: point == OPEN && !cancelling ->
#else
        :: point == OPEN && !cancelling && shown == waiting_for ->
#endif
            point = answer;
            agreed_to = shown;
            winners++
        :: else -> told_lost++          /* 409, naming the winner, or what changed */
        fi
    }
}

proctype deadline() {
    atomic {                            /* expire, by the sweep */
        deciders++;
        if
#ifdef MUTANT_expiry_overrules
        :: point != CANCELLED ->
#else
        :: point == OPEN && !cancelling ->
#endif
            point = EXPIRED;
            winners++
        :: else -> told_lost++
        fi
    }
}

proctype canceller() {
    atomic {                            /* signal cancel: acknowledged at once */
        cancelling = true;
        if
        :: point == OPEN -> point = CANCELLED
        :: else
        fi
    }
}

/* Somebody edits the arguments before anybody decided. */
proctype editor() {
    atomic {
        if
        :: point == OPEN && !cancelling -> waiting_for = 2
        :: else
        fi
    }
}

proctype worker() {
    byte tries = 0;
end:
    do
    :: tries < 2 && begun == 0 && point != OPEN ->
        atomic {                        /* begin: consumes the approval in the same transaction */
            tries++;
            if
#ifdef MUTANT_begin_without_yes
            :: !consumed && !cancelling ->
#elif defined(MUTANT_begin_after_cancel)
            :: point == APPROVED && !consumed ->
#else
            :: point == APPROVED && !consumed && !cancelling ->
#endif
                assert(point == APPROVED);
                assert(!cancelling);
                assert(agreed_to == waiting_for);
                consumed = true;
                begun++
            :: else
            fi
        }
    :: tries == 2 || begun > 0 -> break
    od
}

/* A second call that would like to stand on the same yes. */
proctype other_call() {
end:
    if
    :: point == APPROVED ->
        atomic {                        /* record, of a call that needs no begin */
            if
#ifdef MUTANT_consumed_twice
            :: point == APPROVED && !cancelling -> begun++
#else
            :: point == APPROVED && !consumed && !cancelling -> consumed = true; begun++
#endif
            :: else
            fi
        }
    fi
}

active proctype invariant() {
end:
    do
    :: atomic { begun > 1 -> assert(false) }
    :: atomic { winners > 1 -> assert(false) }
    :: timeout ->
        assert(winners + told_lost == deciders);
        break
    od
}

init {
    atomic {
        run person(APPROVED);
        run person(REJECTED);
        run deadline();
        run canceller();
        run editor();
        run worker();
        run other_call()
    }
}
