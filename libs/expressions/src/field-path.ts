export type Key = string | number;

/** Paths of fields in the form of problem details: `mask.number`, `args.items[2].card`. */
function atKey(path: string, key: Key): string {
  return typeof key === 'number' ? `${path}[${key}]` : `${path}.${key}`;
}

export function fieldPath(root: string, keys: readonly Key[]): string {
  return keys.reduce<string>(atKey, root);
}
