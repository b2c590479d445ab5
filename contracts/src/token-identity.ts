/** A token by its id. Another token can have the id before or after it: the time of its creation distinguishes them. */
export type TokenIdentity = { readonly id: string; readonly createdAt: string };

/** `createdAt` is unset where an older release did not note it. */
type NamedToken = { readonly id: string; readonly createdAt?: string | undefined };

const keyOf = ({ id, createdAt }: NamedToken): string => `${createdAt ?? ''} ${id}`;

/** Whether a token is one of these. A token without the time of its creation is none of them: any token may be meant. */
export function isAmong(tokens: Iterable<NamedToken>): (token: NamedToken) => boolean {
  const keys = new Set<string>();
  for (const token of tokens) keys.add(keyOf(token));
  return (token) => token.createdAt !== undefined && keys.has(keyOf(token));
}
