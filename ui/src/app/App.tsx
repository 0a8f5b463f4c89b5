/** Which page an address shows, and whether anybody is signed in to see it. */

import { QueryClient, QueryClientProvider, useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useEffect } from "react";
import { Redirect, Route, Switch, useLocation } from "wouter";
import { api, onSignedOut, taken } from "../api/client";
import { ApiError } from "../api/errors";
import { live } from "../api/live";
import { Approvals } from "../approvals/Approvals";
import { Empty, Failed, Loading } from "../design/States";
import { Executions } from "../executions/Executions";
import { Execution } from "../execution/Execution";
import { Login } from "../login/Login";
import { Broken } from "./Broken";
import { Shell } from "./Shell";

// What not everybody opens is not loaded with the first page.
const Agent = lazy(async () => ({ default: (await import("../agents/Agent")).Agent }));
const Agents = lazy(async () => ({ default: (await import("../agents/Agents")).Agents }));
const Compare = lazy(async () => ({ default: (await import("../compare/Compare")).Compare }));
const Demo = lazy(async () => ({ default: (await import("../demo/Demo")).Demo }));
const Room = lazy(async () => ({ default: (await import("../rooms/Room")).Room }));
const Rooms = lazy(async () => ({ default: (await import("../rooms/Rooms")).Rooms }));
const Schedules = lazy(async () => ({ default: (await import("../schedules/Schedules")).Schedules }));
const Settings = lazy(async () => ({ default: (await import("../settings/Settings")).Settings }));
const Workers = lazy(async () => ({ default: (await import("../workers/Workers")).Workers }));

const client = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 15_000,
      retry: (tries, error) => error instanceof ApiError && error.away && tries < 3,
      refetchOnWindowFocus: true,
    },
  },
});

export function App() {
  return (
    <QueryClientProvider client={client}>
      <Door />
    </QueryClientProvider>
  );
}

/** Shows the pages to who is signed in, and to others the way in. */
function Door() {
  const [place, go] = useLocation();
  const session = useQuery({ queryKey: ["session"], queryFn: () => taken(api.GET("/v1/session")), staleTime: Infinity });
  const out = session.error instanceof ApiError && session.error.status === 401;
  useEffect(() => onSignedOut(() => void client.invalidateQueries({ queryKey: ["session"] })), []);
  const inside = session.data !== undefined && !out;
  useEffect(() => {
    if (inside) live.start();
  }, [inside]);

  if (place === "/login" || out) {
    return (
      <Login
        done={() => {
          void client.resetQueries();
          go("/executions");
        }}
      />
    );
  }
  if (session.isPending) return <Loading what="Perdure" />;
  if (session.data === undefined) return <Failed error={session.error} again={() => void session.refetch()} />;
  return (
    <Shell session={session.data}>
      <Broken place={place}>
        <Suspense fallback={<Loading what="the page" />}>
          <Switch>
            <Route path="/">
              <Redirect to="/executions" replace />
            </Route>
            <Route path="/executions" component={Executions} />
            <Route path="/executions/:id/:tab?">{({ id, tab }) => <Execution key={id} id={id} tab={tab ?? ""} />}</Route>
            <Route path="/compare/:left/:right">
              {({ left, right }) => <Compare key={`${left} ${right}`} left={left} right={right} />}
            </Route>
            <Route path="/approvals/:id?">{({ id }) => <Approvals chosen={id ?? ""} />}</Route>
            <Route path="/workers" component={Workers} />
            <Route path="/agents" component={Agents} />
            <Route path="/agents/:name">{({ name }) => <Agent key={name} name={decoded(name)} />}</Route>
            <Route path="/rooms" component={Rooms} />
            <Route path="/rooms/:id/:tab?">{({ id, tab }) => <Room key={id} id={id} tab={tab ?? ""} />}</Route>
            <Route path="/settings" component={Settings} />
            <Route path="/schedules" component={Schedules} />
            <Route path="/demo" component={Demo} />
            <Route>
              <Empty icon="question" title="There is no such page">
                The address names nothing that is here.
              </Empty>
            </Route>
          </Switch>
        </Suspense>
      </Broken>
    </Shell>
  );
}

/** A part of an address as somebody wrote it, who may have written it wrong. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
