import { requireTransitOptions, type TransitOptions } from '@token-vault/crypto';
import path from 'node:path';

/** The place of the root key and, during a rotation, of the next one. */
export interface RootKeySettings {
  /**
   * VAULT_ROOT_KEY. Undefined: transit when it is configured for more than the next key, else a file in the data
   * directory.
   */
  readonly rootKey: string | undefined;
  /**
   * VAULT_ROOT_KEY_NEXT, only during a rotation of the root key: a key, `transit`, or `transit:<name of another key
   * there>`. Undefined: a file beside that of the root key, if it exists.
   */
  readonly nextRootKey?: string | undefined;
  /** VAULT_ROOT_KEY_TRANSIT_…. Undefined: transit is not configured. */
  readonly transit?: TransitOptions | undefined;
}

const isInTransit = (nextRootKey: string | undefined): boolean => /^transit(:|$)/.test(nextRootKey ?? '');

/** Whether transit holds the root key, not only the next one. */
export function isTransitCurrent({ rootKey, nextRootKey, transit }: RootKeySettings): boolean {
  return transit !== undefined && rootKey === undefined && nextRootKey !== 'transit';
}

/** The transit options of the next root key. Undefined when transit does not hold it. */
export function nextTransitOptions({ nextRootKey, transit }: RootKeySettings): TransitOptions | undefined {
  if (!transit || !isInTransit(nextRootKey)) return undefined;
  return { ...transit, key: nextRootKey?.slice('transit:'.length) || transit.key }; // '' when no other is named
}

const prefix = 'VAULT_ROOT_KEY_TRANSIT_';

function readTransit(environment: NodeJS.ProcessEnv): TransitOptions | undefined {
  const read = (name: string): string | undefined => environment[`${prefix}${name}`] || undefined; // empty is unset
  const file = (name: string) => {
    const text = read(name);
    return text === undefined ? undefined : path.resolve(text);
  };
  const url = read('URL');
  const key = read('KEY');
  const names = Object.keys(environment).filter((name) => name.startsWith(prefix) && environment[name]);
  if (names.length === 0) return undefined;
  if (url === undefined || key === undefined)
    throw new Error(`${names[0]} is set: it needs ${prefix}URL and ${prefix}KEY`);
  const options = { url, key, mount: read('MOUNT'), namespace: read('NAMESPACE') };
  const access = { token: read('TOKEN'), tokenFile: file('TOKEN_FILE'), caFile: file('CA_FILE') };
  if ((access.token === undefined) === (access.tokenFile === undefined))
    throw new Error(`${prefix}URL is set: it needs either ${prefix}TOKEN or ${prefix}TOKEN_FILE`);
  const transit = { ...options, ...access };
  explained(() => requireTransitOptions(transit), `${prefix}…: `);
  return transit;
}

function explained(check: () => void, place: string): void {
  try {
    check();
  } catch (cause) {
    throw new Error(`${place}${cause instanceof Error ? cause.message.replace(/^transit: /, '') : ''}`, {
      cause,
    });
  }
}

function refuseContradiction(settings: RootKeySettings): void {
  const { rootKey, nextRootKey = '', transit } = settings;
  if (isInTransit(nextRootKey) && !transit)
    throw new Error(`VAULT_ROOT_KEY_NEXT is in transit: set ${prefix}URL as well`);
  // With both settings it would be unclear which root key is in use.
  if (rootKey !== undefined && transit && nextRootKey !== 'transit')
    throw new Error(
      `VAULT_ROOT_KEY and ${prefix}URL are both set: to rotate from the one to the other set VAULT_ROOT_KEY_NEXT to transit`,
    );
  const next = nextTransitOptions(settings);
  if (next) explained(() => requireTransitOptions(next), 'VAULT_ROOT_KEY_NEXT: ');
}

/** @throws Error naming the variable, without its value */
export function readRootKeySettings(environment: NodeJS.ProcessEnv): RootKeySettings {
  const settings = {
    rootKey: environment.VAULT_ROOT_KEY || undefined, // empty is unset
    nextRootKey: environment.VAULT_ROOT_KEY_NEXT || undefined,
    transit: readTransit(environment),
  };
  refuseContradiction(settings);
  return settings;
}
