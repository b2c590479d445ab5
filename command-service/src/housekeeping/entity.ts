import { streams } from '@token-vault/contracts';

/** The parts of a name that the key ring has for an entity, e.g. `token:<id>`. */
export function partsOf(entity: string): { readonly kind: string; readonly id: string } {
  const [kind = ''] = entity.split(':', 1);
  return { kind, id: entity.slice(kind.length + 1) };
}

/** Entities whose keys are made before an append and have no end of their own, with the stream of that append. */
const streamsByKind: Readonly<Record<string, (tenantId: string, id: string) => string>> = {
  token: streams.token,
  reactor: streams.reactor,
  proxy: streams.proxy,
  tenant: streams.tenant,
};

/** The kinds of entities whose keys are swept when their event never came. */
export const sweptKinds: readonly string[] = Object.keys(streamsByKind);

/** The stream of the event that brings a key of the entity. Undefined for keys that end by their own time. */
export function streamOfKeys(tenantId: string, entity: string): string | undefined {
  const { kind, id } = partsOf(entity);
  return streamsByKind[kind]?.(tenantId, id);
}
