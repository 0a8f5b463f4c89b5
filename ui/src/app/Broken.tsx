/** Catches what a page throws while it is drawn, so that the way to the others stays. */

import { Component, type ReactNode } from "react";
import { said } from "../api/errors";
import { Button } from "../design/Button";
import { Icon } from "../design/icons";

export class Broken extends Component<{ place: string; children: ReactNode }, { error: unknown }> {
  override state = { error: null as unknown };

  static getDerivedStateFromError(error: unknown): { error: unknown } {
    return { error };
  }

  override componentDidUpdate(before: { place: string }): void {
    if (before.place !== this.props.place && this.state.error !== null) this.setState({ error: null });
  }

  override render(): ReactNode {
    if (this.state.error === null) return this.props.children;
    return (
      <div role="alert" className="flex flex-col items-center gap-2 px-6 py-12 text-center">
        <Icon name="alert" size={22} className="text-bad" />
        <p className="text-lg font-semibold">This page could not be shown</p>
        <p className="max-w-lg text-quiet">If the server was updated, its pages are others now: load them anew. ({said(this.state.error)})</p>
        <Button icon="retry" onClick={() => location.reload()}>
          Load anew
        </Button>
      </div>
    );
  }
}
