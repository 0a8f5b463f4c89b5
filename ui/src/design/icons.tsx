/** The few pictures there are, drawn on one grid. Beside each stands a word, so all are hidden from screen readers. */

const PATHS = {
  agent: "M6 9h12v9.5H6zM12 9V5.2m0 0h.2M3.5 12.5v3m17-3v3M9.5 13v.8m5-.8v.8",
  alert: "M12 4 3 19.5h18L12 4Zm0 5.5v4.5m0 2.8v.2",
  arrow: "M5 12h14m-5-5 5 5-5 5",
  back: "M19 12H5m5-5-5 5 5 5",
  ban: "M12 3.5a8.5 8.5 0 1 0 0 17 8.5 8.5 0 0 0 0-17ZM6 6l12 12",
  bell: "M6.5 16.5V11a5.5 5.5 0 0 1 11 0v5.5l1.5 1.5H5l1.5-1.5ZM10 20.5h4",
  calendar: "M5 6.5h14v13H5zM5 10.5h14M9 4v4m6-4v4",
  check: "m5 12.5 4.5 4.5L19 7.5",
  clock: "M12 3.5a8.5 8.5 0 1 0 0 17 8.5 8.5 0 0 0 0-17Zm0 4V12l3 2",
  close: "m6 6 12 12M18 6 6 18",
  cloud: "M4 4l16 16M9 6.6A6 6 0 0 1 18 11a4 4 0 0 1 2.6 6.6M16 19H7a4.5 4.5 0 0 1-.8-8.9",
  compare: "M4 5h6.5v14H4zM13.5 5H20v14h-6.5zM6.5 9H8m8 0h1.5m-11 3H8m8 0h1.5",
  copy: "M9 9h10v10H9zM5 15V5h10",
  down: "m6 9.5 6 6 6-6",
  download: "M12 4v11m-4.5-4.5L12 15l4.5-4.5M5 19.5h14",
  file: "M7 3.5h7l4 4v13H7zM14 3.5v4h4",
  filter: "M4 6h16M7 12h10m-7 6h4",
  fork: "M7 3.5v17M7 14c0-5 10-2 10-9.5m-3.5 3L17 4l3.5 3.5",
  graph: "M9 3.5h6v5H9zM3.5 15.5h6v5h-6zM14.5 15.5h6v5h-6zM12 8.5V12m-5.5 3.5V12h11v3.5",
  gear: "M12 9a3 3 0 1 0 0 6 3 3 0 0 0 0-6Zm0-5.5v2.6m0 11.8v2.6M3.5 12h2.6m11.8 0h2.6M6 6l1.9 1.9m8.2 8.2L18 18M6 18l1.9-1.9m8.2-8.2L18 6",
  hand: "M8 12V6.5a1.5 1.5 0 0 1 3 0V11m0-5.5a1.5 1.5 0 0 1 3 0V11m0-4a1.5 1.5 0 0 1 3 0v7a6 6 0 0 1-6 6c-2.8 0-4.2-1.2-5.5-3.6L4 13.5a1.4 1.4 0 0 1 2.3-1.6L8 14",
  list: "M8.5 6H20M8.5 12H20M8.5 18H20M4 6h.2M4 12h.2M4 18h.2",
  menu: "M4 7h16M4 12h16M4 17h16",
  moon: "M19.5 14.5A8 8 0 0 1 9.5 4.5a8 8 0 1 0 10 10Z",
  pause: "M8.5 5v14m7-14v14",
  pencil: "M4 20h4L19 9l-4-4L4 16v4Zm9-13 4 4",
  play: "M7 4.5v15l12-7.5L7 4.5Z",
  plus: "M12 5.5v13M5.5 12h13",
  question: "M12 3.5a8.5 8.5 0 1 0 0 17 8.5 8.5 0 0 0 0-17Zm-2.6 6.2a2.7 2.7 0 1 1 4.2 2.2c-1 .7-1.6 1.2-1.6 2.1m0 2.7v.2",
  reply: "M9 7 4 12l5 5m-5-5h10a6 6 0 0 1 6 6v1",
  retry: "M19.5 8A8.5 8.5 0 1 0 20.5 12M20 3.5V8h-4.5",
  room: "M4 5h11v8H8.5L5.5 15.5V13H4zM18 9h2v8h-1v2.5L16 17h-5v-1",
  search: "M10.5 4a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13Zm9 15.5-4.3-4.3",
  send: "M4 12 20 4l-5 16-3.5-6.5L4 12Z",
  spark: "M12 3.5 13.8 10l6.7 2-6.7 2L12 20.5 10.2 14l-6.7-2 6.7-2L12 3.5Z",
  spinner: "M12 3.5a8.5 8.5 0 1 1-8.5 8.5",
  stop: "M6.5 6.5h11v11h-11z",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8Zm0-5v2m0 14v2M3 12h2m14 0h2M5.6 5.6 7 7m10 10 1.4 1.4m0-12.8L17 7M7 17l-1.4 1.4",
  test: "M9 3.5h6m-5 0v6L4.8 18a1.7 1.7 0 0 0 1.5 2.5h11.4a1.7 1.7 0 0 0 1.5-2.5L14 9.5v-6M7.5 15h9",
  stack: "M4.5 5h15v4.5h-15zM4.5 14.5h15V19h-15zM8 7.2h.2M8 16.7h.2",
  tool: "M14.5 6.5a4 4 0 0 0-5.3 5L4 16.7V20h3.3l5.2-5.2a4 4 0 0 0 5-5.3l-2.7 2.7-2.5-.5-.5-2.5 2.7-2.7Z",
  user: "M12 4a4 4 0 1 0 0 8 4 4 0 0 0 0-8Zm-7.5 16a7.5 7.5 0 0 1 15 0",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16, className = "" }: { name: IconName; size?: number; className?: string }) {
  return (
    <svg
      aria-hidden="true"
      viewBox="0 0 24 24"
      width={size}
      height={size}
      fill="none"
      stroke="currentColor"
      strokeWidth="1.9"
      strokeLinecap="round"
      strokeLinejoin="round"
      className={`shrink-0 ${className}`}
    >
      <path d={PATHS[name]} />
    </svg>
  );
}
