/** What an execution did to the world, and the answer to "was anything done twice?". */

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, type Effect, type Proof, type Schemas, taken } from "../api/client";
import { Ask } from "../design/Ask";
import { Button } from "../design/Button";
import { Icon } from "../design/icons";
import { Empty, Failed, Loading } from "../design/States";
import { Status } from "../design/Status";
import { useMyName } from "../design/settings";
import { shown } from "../log/event";
import { Long, Plain } from "../text/Text";
import { plural } from "../text/time";
import { useEffects, useProof } from "./data";

export function Effects({ execution }: { execution: string }) {
  const effects = useEffects(execution);
  const proof = useProof(execution);
  return (
    <div className="flex flex-col gap-4">
      {proof.data ? <Verdict proof={proof.data} /> : proof.isError ? <Failed error={proof.error} /> : <Loading what="the proof" />}
      {effects.isPending ? (
        <Loading what="its effects" />
      ) : effects.data === undefined ? (
        <Failed error={effects.error} again={() => void effects.refetch()} />
      ) : effects.data.length === 0 ? (
        <div className="card">
          <Empty icon="list" title="It has done nothing to the world">
            Only tools that act are effects; those that may be repeated are not.
          </Empty>
        </div>
      ) : (
        <ul className="flex flex-col gap-3">
          {effects.data.map((one) => (
            <li key={one.address}>
              <EffectCard one={one} />
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

const VERDICTS = {
  no: { tone: "tone-good", icon: "check" },
  yes: { tone: "tone-wait", icon: "alert" },
  unknown: { tone: "tone-bad", icon: "question" },
} as const;

function Verdict({ proof }: { proof: Proof }) {
  const said = parts(proof.verdict);
  const look = VERDICTS[proof.twice === null ? "unknown" : proof.twice || said.open ? "yes" : "no"];
  return (
    <section aria-labelledby="verdict" className={`toned ${look.tone} flex flex-col gap-2 rounded-lg p-4`}>
      <h2 id="verdict" className="text-sm font-medium">
        Was anything done twice?
      </h2>
      <p className="flex items-start gap-2 text-lg font-semibold">
        <Icon name={look.icon} size={22} className="mt-0.5" />
        <Plain text={said.answer} />
      </p>
      {said.open ? <p className="font-medium">{said.open}</p> : null}
      {said.covers ? (
        <p className="text-sm">
          <Plain text={said.covers} />
        </p>
      ) : null}
      {[...proof.doubted_calls, ...proof.doubted_steps].map((one) => (
        <p key={one.address} className="text-sm">
          <span className="font-mono">
            <Plain text={one.address} />
          </span>
          : <Plain text={one.doubt ?? ""} />
        </p>
      ))}
    </section>
  );
}

/** The answer in large letters, what it rests on in small ones, and what nobody knows. */
function parts(verdict: string): { answer: string; covers: string; open: string } {
  const open = / (Whether .* is unknown\.)$/.exec(verdict)?.[1] ?? "";
  const rest = (open ? verdict.slice(0, -open.length - 1) : verdict).replace(", as the lines above say", "");
  const covers = / \((.*)\)\.$/.exec(rest)?.[1] ?? "";
  return { answer: covers ? `${rest.slice(0, -covers.length - 4)}.` : rest, covers, open };
}

type Ruling = Schemas["RulingBody"]["ruling"];

const RULINGS: Record<Ruling, { readonly verb: string; readonly about: string }> = {
  happened: { verb: "It happened", about: "It is taken as done and never tried again. The model is told so." },
  run: { verb: "It did not; do it", about: "The tool is called again. If it had happened after all, it happens twice." },
  give_up: { verb: "Give it up", about: "Nobody knows, and nobody will try again. The model is told so." },
};

function EffectCard({ one }: { one: Effect }) {
  const [ruling, rule] = useState<Ruling | null>(null);
  const [name] = useMyName();
  const client = useQueryClient();
  const say = useMutation({
    mutationFn: ({ which, reason }: { which: Ruling; reason: string }) =>
      taken(
        api.POST("/v1/executions/{execution}/effects/ruling", {
          params: { path: { execution: one.execution } },
          body: { address: one.address, ruling: which, by: name, reason, value: null },
        }),
      ),
    onSuccess: () => rule(null),
    onSettled: () => void client.invalidateQueries({ queryKey: ["execution", one.execution] }),
  });
  const tries = one.claims ? plural(one.claims, "claim") : plural(one.attempts ?? 0, "attempt");
  return (
    <article className="card flex flex-col gap-3 p-4">
      <header className="flex flex-wrap items-center gap-2">
        <Status of="step" state={one.outcome || one.state} small />
        <h3 className="font-mono font-medium">
          <Plain text={one.tool} />
        </h3>
        <span className="text-sm text-faint">
          <Plain text={one.address} />
        </span>
      </header>
      <p className="text-sm text-quiet">
        {one.delivery?.replaceAll("_", " ")}: {tries}, {one.confirmed ?? 0} confirmed
        {one.worker ? (
          <>
            , by worker <Plain text={one.worker} />
          </>
        ) : null}
        {one.seqs && one.seqs.length > 0 ? ` (events ${one.seqs.join(", ")})` : ""}
      </p>
      <Long text={shown(one.args)} label={`arguments of ${one.tool}`} />
      {one.value !== null && one.value !== undefined ? <Long text={shown(one.value)} label={`receipt of ${one.tool}`} /> : null}
      {one.served ? (
        <p className="text-sm text-quiet">
          Not done here: it was given the result of <Plain text={one.served} />
          {one.edited ? ", and another one was written in its place when this was forked" : ""}.
        </p>
      ) : null}
      {one.why ? (
        <p className="text-sm text-quiet">
          <Plain text={one.why} />
        </p>
      ) : null}
      {one.doubt ? (
        <p className="toned tone-wait rounded-md px-3 py-2 text-sm">
          <Plain text={one.doubt} />
        </p>
      ) : null}
      {one.ruling ? (
        <p className="text-sm">
          Ruled {one.ruling.replaceAll("_", " ")} by <Plain text={one.ruled_by || "somebody"} />
          {one.reason ? (
            <>
              : <Plain text={one.reason} />
            </>
          ) : null}
        </p>
      ) : null}
      {one.state === "uncertain" ? (
        <div className="toned tone-hold flex flex-col gap-2 rounded-md p-3">
          <p className="font-medium">Nobody knows whether this happened. What do you know?</p>
          <div className="flex flex-wrap gap-2">
            {(Object.keys(RULINGS) as Ruling[]).map((which) => (
              <Button key={which} onClick={() => rule(which)}>
                {RULINGS[which].verb}
              </Button>
            ))}
          </div>
        </div>
      ) : null}
      <Ask
        open={ruling !== null}
        title={ruling ? `${RULINGS[ruling].verb}: ${one.tool}` : ""}
        about={ruling ? RULINGS[ruling].about : ""}
        field="How do you know? (kept in its log)"
        verb={ruling ? RULINGS[ruling].verb : ""}
        danger={ruling === "run"}
        busy={say.isPending}
        error={say.error}
        close={() => rule(null)}
        done={(reason) => ruling && say.mutate({ which: ruling, reason })}
      />
    </article>
  );
}
