/* A result on its way from the body to the store (src/perdure/worker: outbox, reports; engine: complete).
 *
 * A worker acts, writes the result to its outbox, delivers it, and may be killed between any two of these. Its successor
 * adopts the file through the lock that a living process holds for life. Replies are lost.
 *
 * Held: once a result is on the disk it reaches the store, unless every successor is killed; nobody adopts the file of
 * a living worker; a record is removed only when the store has answered; the store applies a result once.
 *
 * Actions: complete
 */

#define WORKERS 3
#define NOBODY 255

byte lock_of = 0;           /* which worker holds the lock of the one outbox file; freed by death alone */
bool alive[WORKERS];
bool acted = false;
bool on_disk = false;       /* the record, fsynced */
bool closed = false;        /* the record is settled: delivered, or refused as evidence */
bool applied = false;       /* the store has the result */
byte applications = 0;
byte kills = 0;

inline may_die(me) {
    if
    :: kills < WORKERS - 1 ->
        atomic {
            kills++;
            alive[me] = false;
            if
            :: lock_of == me -> lock_of = NOBODY
            :: else
            fi
        }
        goto dead
    :: skip
    fi
}

inline deliver(me) {
    do
    :: closed || !on_disk -> break
    :: else ->
#ifdef MUTANT_removed_before_delivery
        closed = true;
        may_die(me);
#endif
        atomic {                        /* complete: first write wins, the same again is accepted */
            if
            :: !applied -> applied = true; applications++
#ifdef MUTANT_applied_twice
            :: applied -> applications++
#endif
            :: else
            fi;
            assert(applications <= 1)
        }
        may_die(me);
        if
        :: closed = true                /* answered: the record is closed */
        :: skip                         /* the reply was lost: said again */
        fi
    od
}

proctype first() {
    alive[0] = true;
    acted = true;                       /* the body */
    may_die(0);
#ifdef MUTANT_delivered_before_disk
    applied = true; applications++;
    may_die(0);
    on_disk = true;
#else
    on_disk = true;
#endif
    may_die(0);
    deliver(0);
dead:
    skip
}

proctype successor(byte me) {
    alive[me] = true;
end:
#ifdef MUTANT_adopted_without_lock
    atomic { on_disk -> lock_of = me };
#else
    atomic { lock_of == NOBODY -> lock_of = me };
#endif
    assert(!alive[0]);
    may_die(me);
    deliver(me);
dead:
    skip
}

active proctype invariant() {
end:
    timeout ->
        /* All is quiet. What was on the disk is in the store; what is not was never written. */
        assert(!on_disk || applied || kills == WORKERS);
        assert(!applied || on_disk);
        assert(!closed || applied)
}

init {
    atomic {
        run first();
        run successor(1);
        run successor(2)
    }
}
