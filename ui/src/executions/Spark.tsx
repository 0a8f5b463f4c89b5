/** What was begun lately, as bars: how busy it is, and since when something fails. */

import { useQuery } from "@tanstack/react-query";
import { api, taken } from "../api/client";
import { useZone } from "../design/settings";
import { moment } from "../text/time";
import { SINCE, type Since } from "./filter";
import { bars, said } from "./spark";

const HOURS: Record<Since, number> = { "1h": 1, "24h": 24, "7d": 168 };
const AGAIN_MS = 30_000;
const WIDTH = 4;
const HEIGHT = 28;

export function Spark({ since }: { since: Since }) {
  const [zone] = useZone();
  const found = useQuery({
    queryKey: ["recent", since],
    queryFn: ({ signal }) => taken(api.GET("/v1/executions/recent", { params: { query: { hours: HOURS[since] } }, signal })),
    refetchInterval: AGAIN_MS,
  });
  const recent = found.data;
  if (!recent) return <span className="h-7" />; // it is no part of the page that anybody waits for
  const whole = recent.known_from_ms <= recent.from_ms;
  const words = said(recent.begun, recent.failed, whole, SINCE[since].word);
  const width = recent.begun.length * WIDTH;
  return (
    <figure className="flex items-center gap-2.5 text-xs text-quiet">
      <svg role="img" aria-label={words} width={width} height={HEIGHT} viewBox={`0 0 ${width} ${HEIGHT}`} className="shrink-0 max-sm:w-24">
        {bars(recent.begun, recent.failed).map((bar, at) => (
          <g key={at}>
            <title>{`${moment(recent.from_ms + at * recent.part_ms, zone).slice(0, 16)}: ${recent.begun[at]} begun, ${recent.failed[at]} failed`}</title>
            <rect x={at * WIDTH} y="0" width={WIDTH} height={HEIGHT} fill="transparent" />
            <rect x={at * WIDTH} y={HEIGHT - 1} width={WIDTH - 1} height="1" className="fill-line" />
            <rect x={at * WIDTH} y={HEIGHT * (1 - bar.height)} width={WIDTH - 1} height={HEIGHT * bar.height} className="fill-run" />
            <rect x={at * WIDTH} y={HEIGHT * (1 - bar.bad)} width={WIDTH - 1} height={HEIGHT * bar.bad} className="fill-bad" />
          </g>
        ))}
      </svg>
      <figcaption>{words}</figcaption>
    </figure>
  );
}
