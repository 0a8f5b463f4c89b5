import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, taken } from "../api/client";
import { KEY_BYTES, type KeyRow, newKey } from "./keys";

export function useInfo() {
  return useQuery({ queryKey: ["info"], queryFn: ({ signal }) => taken(api.GET("/v1/info", { signal })), refetchInterval: 15_000 });
}

export function useReady() {
  return useQuery({ queryKey: ["ready"], queryFn: ({ signal }) => taken(api.GET("/ready", { signal })), refetchInterval: 5_000, retry: false });
}

export function useKeys() {
  return useQuery({ queryKey: ["keys"], queryFn: ({ signal }) => taken(api.GET("/v1/keys", { signal })) });
}

/** All companies with their keys: for whoever runs the server, and refused (`admin_only`) to others. */
export function useCompanies() {
  return useQuery({ queryKey: ["companies"], queryFn: ({ signal }) => taken(api.GET("/v1/companies", { signal })) });
}

/** Make a key here, and have it speak for somebody. It is in the answer, and in no other. */
export function useKeyMaking() {
  const client = useQueryClient();
  return useMutation({
    gcTime: 0, // nothing here remembers the key longer than it is shown
    mutationFn: async ({ company, name }: { company: string; name: string }) => {
      const key = newKey(crypto.getRandomValues(new Uint8Array(KEY_BYTES)));
      const made = await taken(api.POST("/v1/companies/{company}/keys", { params: { path: { company } }, body: { name, key } }));
      return { company, key, made };
    },
    onSettled: () => void client.invalidateQueries({ queryKey: ["companies"] }),
  });
}

export function useKeyRevoking() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ company, id }: KeyRow) => taken(api.DELETE("/v1/companies/{company}/keys/{key}", { params: { path: { company, key: id } } })),
    onSettled: () => {
      void client.invalidateQueries({ queryKey: ["companies"] });
      void client.invalidateQueries({ queryKey: ["keys"] });
    },
  });
}

export function useSession() {
  return useQuery({ queryKey: ["session"], queryFn: () => taken(api.GET("/v1/session")), staleTime: Infinity }).data;
}

export function useSecrets() {
  return useQuery({ queryKey: ["secrets"], queryFn: ({ signal }) => taken(api.GET("/v1/secrets", { signal })) });
}

export function useLink() {
  return useMutation({ mutationFn: () => taken(api.POST("/v1/session/links")) });
}

export function useSecretChange() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ name, value, by }: { name: string; value: string | null; by: string }): Promise<unknown> => {
      const params = { path: { secret: name } };
      return value === null ? taken(api.DELETE("/v1/secrets/{secret}", { params })) : taken(api.PUT("/v1/secrets/{secret}", { params, body: { value, by } }));
    },
    onSettled: () => void client.invalidateQueries({ queryKey: ["secrets"] }),
  });
}
