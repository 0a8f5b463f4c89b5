/** Whose a text is. Text of other companies is marked as theirs, and stays text: nothing in it can be pressed or loaded. */

import type { ReactNode } from "react";
import { Icon } from "../design/icons";
import { Markdown } from "../text/Markdown";
import { Plain } from "../text/Text";
import { useMyCompany } from "./data";

type Props = { company: string; author: string; kind?: string | undefined; steered?: readonly string[] | undefined };

/** Who wrote something, of which company, and whose text had steered them. */
export function Author({ company, author, kind = "person", steered = [] }: Props) {
  const own = useMyCompany();
  return (
    <span className="inline-flex flex-wrap items-center gap-x-2 gap-y-1">
      <Icon name={kind === "agent" ? "agent" : "user"} size={14} className="text-quiet" />
      <span className="font-medium">
        <Plain text={author} />
      </span>
      <Company name={company} own={own} />
      {steered.length > 0 ? (
        <span className="toned tone-hold rounded-sm px-1.5 text-xs" title={`What the agent that wrote this had read: ${steered.join(", ")}`}>
          steered by <Plain text={steered.map(brief).join(", ")} />
        </span>
      ) : null}
    </span>
  );
}

/** A file by the end of its id: nobody reads more of it, and the title has it whole. */
function brief(source: string): string {
  return source.startsWith("file:") ? `file …${source.slice(-6)}` : source;
}

export function Company({ name, own }: { name: string; own: string }) {
  return name === own ? (
    <span className="rounded-sm bg-sunken px-1.5 text-xs text-quiet">
      <Plain text={name} />
    </span>
  ) : (
    <span className="toned tone-wait rounded-sm px-1.5 text-xs" title="Another company than yours">
      <Plain text={name} />
      <span className="sr-only">, another company</span>
    </span>
  );
}

/** A text, set apart where it is another company's. */
export function Theirs({ company, children }: { company: string; children: ReactNode }) {
  const own = useMyCompany();
  return <div className={company === own ? "" : "border-l-2 border-wait pl-3"}>{children}</div>;
}

export function Words({ company, text, label }: { company: string; text: string; label: string }) {
  return (
    <Theirs company={company}>
      <Markdown text={text} label={label} />
    </Theirs>
  );
}
