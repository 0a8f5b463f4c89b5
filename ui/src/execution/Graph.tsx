/** What led to what: turns, the calls of each, sub-agents. Folded by turn, and never more nodes at once than can be taken in. */

import { useEffect, useMemo, useRef, useState } from "react";
import { Link } from "wouter";
import type { Execution } from "../api/client";
import { Button } from "../design/Button";
import { Icon, type IconName } from "../design/icons";
import { Status } from "../design/Status";
import type { Event } from "../log/event";
import type { Story } from "../log/story";
import { plain } from "../text/hostile";
import { Plain } from "../text/Text";
import { plural } from "../text/time";
import { type Graph as Drawn, graphOf, NODE, type Node, openAtFirst, type Stage, stagesOf } from "./graph/layout";

type Props = { view: Execution; story: Story; events: readonly Event[]; show: (address: string) => void };

export default function Graph({ view, story, events, show }: Props) {
  const stages = useMemo(() => stagesOf(view.id, story, events, view.children ?? []), [view.id, view.children, story, events]);
  const [said, say] = useState<ReadonlyMap<string, boolean>>(new Map());
  const [from, start] = useState(0);
  const isOpen = (stage: Stage): boolean => said.get(stage.key) ?? openAtFirst(stage, stages);
  const graph = graphOf(stages, Math.min(from, Math.max(0, stages.length - 1)), isOpen);
  const foldable = stages.filter((one) => one.rest.length > 0);
  const all = (open: boolean): void => say(new Map(foldable.map((one) => [one.key, open])));
  const fold = (key: string, open: boolean): void => say(new Map([...said, [key, open]]));
  const drawn = stages.length - graph.before - graph.after;
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (box.current) box.current.scrollLeft = (box.current.scrollWidth - box.current.clientWidth) / 2; // where the turns are
  }, [graph.width]);
  return (
    <section aria-label="Graph" className="flex flex-col gap-2">
      <div className="flex flex-wrap items-center gap-2">
        <span className="text-sm text-quiet" role="status">
          {graph.before + graph.after > 0 ? `${drawn} of ` : ""}
          {plural(stages.length, "stage")}
        </span>
        <span className="ml-auto" />
        <Button disabled={foldable.every((one) => isOpen(one))} onClick={() => all(true)}>
          Unfold all
        </Button>
        <Button disabled={!foldable.some((one) => isOpen(one))} onClick={() => all(false)}>
          Fold all
        </Button>
      </div>
      {graph.before > 0 ? <Button onClick={() => start(Math.max(0, from - Math.max(drawn, 1)))}>Show {plural(graph.before, "earlier stage")}</Button> : null}
      <div ref={box} tabIndex={0} role="region" aria-label="Picture" className="card max-h-[75dvh] overflow-auto p-5">
        <Picture graph={graph} fold={fold} show={show} />
      </div>
      {graph.after > 0 ? <Button onClick={() => start(stages.length - graph.after)}>Show {plural(graph.after, "later stage")}</Button> : null}
    </section>
  );
}

function Picture({ graph, fold, show }: { graph: Drawn; fold: (key: string, open: boolean) => void; show: (address: string) => void }) {
  return (
    <div className="relative mx-auto" style={{ width: graph.width, height: graph.height }}>
      <svg aria-hidden="true" width={graph.width} height={graph.height} className="absolute inset-0 text-edge" fill="none" stroke="currentColor" strokeWidth="1.25">
        {graph.edges.map((one, at) => {
          const middle = (one.fromY + one.toY) / 2;
          return <path key={at} d={`M${one.fromX} ${one.fromY} C${one.fromX} ${middle} ${one.toX} ${middle} ${one.toX} ${one.toY}`} />;
        })}
      </svg>
      <ol>
        {graph.nodes.map((one) => (
          <li key={one.id} className="absolute" style={{ left: one.x, top: one.y, width: NODE.width, height: NODE.height }}>
            <Box node={one} fold={fold} show={show} />
          </li>
        ))}
      </ol>
    </div>
  );
}

const ICONS: Record<Node["kind"], IconName> = { input: "user", model: "spark", tool: "tool", step: "list", child: "graph", timer: "clock", end: "check" };
const BOX = "flex h-full w-full flex-col justify-center gap-1 rounded-md border border-edge bg-card px-3 text-left text-sm";

function Box({ node, fold, show }: { node: Node; fold: (key: string, open: boolean) => void; show: (address: string) => void }) {
  if (node.folds || node.unfolds) {
    const open = node.folds !== "";
    return (
      <button type="button" aria-expanded={open} onClick={() => fold(node.folds || node.unfolds, !open)} className={`${BOX} hover:bg-hover ${open ? "" : "shadow-[3px_3px_0_var(--color-card),4px_4px_0_var(--color-edge)]"}`}>
        <Words node={node} more={<Icon name="down" size={13} className={`ml-auto text-faint transition-transform ${open ? "rotate-180" : ""}`} />} />
      </button>
    );
  }
  if (node.execution) {
    return (
      <Link href={`/executions/${node.execution}`} className={`${BOX} hover:bg-hover`}>
        <Words node={node} more={<Icon name="arrow" size={13} className="ml-auto text-faint" />} />
      </Link>
    );
  }
  if (node.kind === "tool" || node.kind === "model") {
    return (
      <button type="button" onClick={() => show(node.address)} className={`${BOX} hover:bg-hover`}>
        <Words node={node} />
      </button>
    );
  }
  return (
    <div className={BOX}>
      <Words node={node} />
    </div>
  );
}

function Words({ node, more }: { node: Node; more?: React.ReactNode }) {
  const execution = node.kind === "child" || node.kind === "end";
  return (
    <>
      <span className="flex min-w-0 items-center gap-2">
        <Icon name={ICONS[node.kind]} size={14} className="text-quiet" />
        <span className="truncate font-medium" title={plain(node.title)}>
          <Plain text={node.title} />
        </span>
        {more}
      </span>
      <span className="flex items-center gap-2 overflow-hidden text-xs whitespace-nowrap text-quiet">
        {node.state ? <Status of={execution ? "execution" : "step"} state={node.state} small /> : null}
        <span className="truncate">{node.note}</span>
      </span>
    </>
  );
}
