import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, taken } from "../api/client";

export function useInfo() {
  return useQuery({ queryKey: ["info"], queryFn: ({ signal }) => taken(api.GET("/v1/info", { signal })), refetchInterval: 15_000 });
}

export function useReady() {
  return useQuery({ queryKey: ["ready"], queryFn: ({ signal }) => taken(api.GET("/ready", { signal })), refetchInterval: 5_000, retry: false });
}

export function useKeys() {
  return useQuery({ queryKey: ["keys"], queryFn: ({ signal }) => taken(api.GET("/v1/keys", { signal })) });
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
