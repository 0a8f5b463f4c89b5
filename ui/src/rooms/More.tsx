import { Button } from "../design/Button";

type Pages = { hasNextPage: boolean; isFetchingNextPage: boolean; fetchNextPage: () => Promise<unknown> };

/** The way to what is further back. */
export function More({ of }: { of: Pages }) {
  if (!of.hasNextPage) return null;
  return (
    <div className="p-2 text-center">
      <Button busy={of.isFetchingNextPage} onClick={() => void of.fetchNextPage()}>
        Show earlier ones
      </Button>
    </div>
  );
}
