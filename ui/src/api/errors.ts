/** Why a request was not answered as it was hoped, in the server's own words. */
export class ApiError extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly status: number,
    readonly details: Record<string, unknown> = {},
  ) {
    super(message);
    this.name = "ApiError";
  }

  /** Nobody answered: the server is away, or the network is. It is worth trying again. */
  get away(): boolean {
    return this.status === 0 || this.code === "draining" || this.code === "not_ready";
  }
}

export function said(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
