/* Who moves an execution on: parked, ready or owned (src/perdure/engine: claim, record, park, sweep, wake).
 *
 * Two servers claim, append, park, renew, stall for longer than their lease, and die. A completer appends two events
 * from outside. Each `atomic` block is one transaction of the engine and bears its name.
 *
 * Held: an event is never slept through; nobody appends or parks under a fence that is not the newest; an execution has
 * a `ready` row exactly when it may be claimed; a server that was replaced can neither prolong nor end the ownership.
 *
 * Each MUTANT_ is one rule left out. Every one must be found.
 *
 * Actions: claim record park complete renew expire_owned
 */

#define SERVERS 2
#define EVENTS 2
#define CLAIMS 5            /* bounds the search; the last claimer never stalls, so that all can settle */

mtype = { PARKED, READY, OWNED };

mtype ownership = READY;
bool ready_row = true;
byte ready_rows = 1;        /* more than one would be claimed twice */
byte fence = 0;
byte holder = 255;          /* server id of the owned row */
byte next_seq = 2;          /* `started` is event 1 */
bool expired = false;       /* the lease of the owned row has run out */
byte claims = 0;
byte completed = 0;
byte handled = 0;           /* highest seq that code has been given by the newest holder */

inline put_ready() {
    ready_row = true;
    ready_rows++;
    ownership = READY;
}

inline wake() {
#ifdef MUTANT_ready_while_owned
    if
    :: !ready_row -> ready_row = true; ready_rows++
    :: else
    fi
#elif defined(MUTANT_no_wake)
    skip
#else
    if
    :: ownership == PARKED -> put_ready()
    :: else
    fi
#endif
}

/* A task, token, timer or signal is completed: append under the execution's lock, and wake. */
proctype completer() {
    do
    :: completed < EVENTS ->
        atomic {                        /* complete */
            next_seq++;
            completed++;
            wake()
        }
    :: else -> break
    od
}

proctype server(byte me) {
    byte my_fence = 0;
    byte seen = 0;

idle:
    if
    :: atomic {                         /* claim */
        ready_row && claims < CLAIMS ->
            claims++;
            ready_rows--;
            ready_row = (ready_rows > 0);
            assert(ownership == READY);
#ifndef MUTANT_no_fence_at_claim
            fence++;
#endif
            ownership = OWNED;
            holder = me;
            expired = false;
            my_fence = fence;
            seen = next_seq - 1;        /* the log comes with the claim */
            handled = seen
        }
    :: claims >= CLAIMS -> goto done
    :: ownership == PARKED && completed == EVENTS -> goto done
    fi;

owning:
    if
    :: atomic {                         /* record: fenced, answers with the news */
#ifdef MUTANT_append_unfenced
        next_seq < 9 ->
#else
        fence == my_fence && ownership == OWNED && next_seq < 9 ->
#endif
            assert(fence == my_fence && holder == me);
            next_seq++;
            seen = next_seq - 1;
            handled = seen
        }
        goto owning
    :: atomic {                         /* record refused: LeaseLost */
        fence != my_fence || ownership != OWNED -> skip
        }
        goto idle
    :: atomic {                         /* park: conditional on fence and on the last seq seen */
#ifdef MUTANT_park_unseen
        fence == my_fence && ownership == OWNED && holder == me ->
#elif defined(MUTANT_park_unfenced)
        ownership == OWNED && next_seq - 1 == seen ->
#else
        fence == my_fence && ownership == OWNED && next_seq - 1 == seen ->
#endif
            assert(fence == my_fence && holder == me);
            ownership = PARKED;
            holder = 255;
            assert(seen == next_seq - 1)
        }
        goto idle
    :: atomic {                         /* park refused: there is news */
        fence == my_fence && ownership == OWNED && next_seq - 1 != seen -> seen = next_seq - 1; handled = seen
        }
        goto owning
    :: atomic {                         /* renew: by holder and fence */
#ifdef MUTANT_renew_unfenced
        ownership == OWNED ->
#else
        ownership == OWNED && holder == me ->
#endif
            assert(holder == me);
            expired = false
        }
        goto owning
    :: claims < CLAIMS -> goto stalled
    fi;

stalled:                                /* killed, or stopped for longer than the lease */
    expired = true;
    if
    :: goto owning                      /* it wakes up and believes it still owns */
    :: goto idle                        /* it was killed, and comes back as another */
    fi;

done:
    skip
}

/* Puts executions of silent holders back. The fence rises only at the next claim. */
proctype sweeper() {
    byte found;
    do
    :: atomic {                         /* expire_owned: candidate, then again under the lock */
        ownership == OWNED && expired ->
            found = fence
        }
        atomic {
#ifdef MUTANT_expire_unchecked
            if
            :: true ->
#else
            if
            :: ownership == OWNED && fence == found && expired ->
#endif
                holder = 255;
                put_ready();
                expired = false
            :: else
            fi
        }
    :: completed == EVENTS && ownership == PARKED -> break
    :: claims >= CLAIMS && !(ownership == OWNED && expired) -> break
    od
}

/* At every moment. */
active proctype invariant() {
end:
    do
    :: atomic { ready_rows > 1 -> assert(false) }
    :: atomic { ready_row && ownership != READY -> assert(false) }
    :: atomic { ownership == READY && !ready_row -> assert(false) }
    :: atomic { ownership == PARKED && handled != next_seq - 1 -> assert(false) }
    :: timeout -> break
    od
}

init {
    atomic {
        run completer();
        run sweeper();
        run server(0);
        run server(1)
    }
}
