/* An `at_most_once` task from lease to ruling (src/perdure/engine: lease, begin, complete, sweep, rule).
 *
 * Two workers lease, begin, act, report late, stall and die; a sweep ends silent leases; a person rules. What the body
 * does to the world is counted where it happens, apart from what the store believes.
 *
 * Held: a body starts only after its claim is durable and only once per claim; a second claim exists only by a ruling;
 * a report under an old fence changes nothing, and is remembered as a contradiction if it says that the effect happened
 * after somebody ruled that it had not; what is done stays done.
 *
 * Actions: lease begin complete expire_tasks rule
 */

#define WORKERS 2

mtype = { READY, LEASED, BEGUN, UNCERTAIN, DONE, DEAD };

mtype state = READY;
byte fence = 0;
byte owner = 255;
byte begin_nonce = 0;       /* of the newest claim */
byte claims = 0;            /* durable claims */
byte rulings = 0;           /* "it did not happen: run it" */
byte acts = 0;              /* what the world counted */
bool acted[4];              /* by claim number */
byte leases = 0;
byte nonces = 0;
byte value = 0;             /* the result the log holds; 0 is none */
bool contradicted = false;
bool beating = false;       /* somebody heartbeats the begun claim */
bool settled = false;       /* the settle time since the newest begin has passed */

#define MAX_LEASES 4

proctype worker(byte me) {
    byte my_fence = 0;
    byte my_nonce = 0;
    byte my_claim = 0;

end_idle:
    if
    :: atomic {                         /* lease */
        state == READY && leases < MAX_LEASES ->
            leases++;
            fence++;
            state = LEASED;
            owner = me;
            my_fence = fence;
            nonces++;
            my_nonce = nonces
        }
    :: state == DONE || state == DEAD || leases == MAX_LEASES -> goto done
    fi;

leased:
#ifdef MUTANT_act_before_begin
    atomic { acts++; assert(acts <= claims) }
#endif
    if
    :: atomic {                         /* begin: same nonce, same answer */
#ifdef MUTANT_begin_unfenced
        state == LEASED ->
#else
        fence == my_fence && state == LEASED ->
#endif
            state = BEGUN;
            begin_nonce = my_nonce;
            claims++;
            my_claim = claims;
            settled = false;
            beating = true
        }
        if
        :: goto begun
        :: goto leased                  /* the reply was lost: asked again with the same nonce */
        :: goto dead                    /* killed after the claim, before the body */
        fi
    :: atomic {                         /* begin again */
        fence == my_fence && state == BEGUN && begin_nonce == my_nonce ->
            my_claim = claims
        }
        goto begun
    :: atomic { fence != my_fence || (state != LEASED && state != BEGUN) -> skip }
        goto end_idle                       /* refused: lease lost */
    :: atomic { state == LEASED && fence == my_fence -> skip }
        goto end_idle                       /* killed, or stalled past the lease, before it began */
    fi;

begun:                                  /* the body: what happens in the world */
    if
    :: atomic {
        !acted[my_claim] ->
            acts++;
            acted[my_claim] = true;
            assert(acts <= claims)      /* never more than claims allow */
        }
    :: acted[my_claim] -> assert(false)           /* a body started twice under one claim */
    :: goto dead                        /* killed before the effect */
    fi;

report:
    if
    :: atomic {                         /* complete: fenced; also late, while uncertain */
#ifdef MUTANT_complete_unfenced
        (state == BEGUN || state == UNCERTAIN || state == LEASED || state == READY) ->
            assert(fence == my_fence);
#else
        fence == my_fence && (state == BEGUN || state == UNCERTAIN) ->
#endif
            assert(value == 0);
            state = DONE;
            beating = false;
            value = my_claim
        }
    :: atomic {                         /* complete refused: kept as evidence */
        fence != my_fence || (state != BEGUN && state != UNCERTAIN) ->
#ifndef MUTANT_late_report_dropped
            contradicted = true;
#endif
            assert(rulings > 0 || state == DONE || state == DEAD);     /* only a ruling shuts a claim's holder out */
            assert(contradicted || value == my_claim)    /* what it says about the world is not lost */
        }
    :: goto dead                        /* killed after the effect, before the report */
    fi;
    goto end_idle;

dead:
    beating = (owner == me -> false : beating);
    goto end_idle;

done:
    skip
}

/* Leases run out when nobody heartbeats; the settle time passes. */
proctype sweeper() {
end:
    do
    :: atomic {                         /* expire_tasks */
        state == LEASED -> state = READY
        }
    :: atomic {
        state == BEGUN ->
            beating = false;            /* silent for as long as a lease */
#ifdef MUTANT_begun_goes_back
            state = READY
#else
            state = UNCERTAIN
#endif
        }
    :: atomic { state == UNCERTAIN && !settled -> settled = true }
    :: state == DONE || state == DEAD -> break
    :: leases == MAX_LEASES && (state == READY || (state == UNCERTAIN && settled)) -> break
    od
}

proctype person() {
end:
    do
    :: atomic {                         /* rule: it did not happen, run it */
#ifdef MUTANT_rule_before_settle
        state == UNCERTAIN && rulings < 2 ->
#else
        state == UNCERTAIN && settled && !beating && rulings < 2 ->
#endif
            assert(settled);
            rulings++;
            fence++;
            state = READY
        }
    :: atomic { state == UNCERTAIN -> state = DONE; assert(value == 0); value = 200 }       /* happened */
    :: atomic { state == UNCERTAIN -> state = DEAD }                                        /* give up */
    :: state == DONE || state == DEAD -> break
    od
}

active proctype invariant() {
end:
    do
    :: atomic { claims > 1 + rulings -> assert(false) }
    :: atomic { acts > claims -> assert(false) }
    :: timeout -> break
    od
}

init {
    atomic {
        run worker(0);
        run worker(1);
        run sweeper();
        run person()
    }
}
