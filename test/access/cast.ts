import { randomUUID } from 'node:crypto';
import type { Principal } from '@token-vault/access';
import { managementPermissions, type ApplicationType, type Json } from '@token-vault/contracts';
import { tell, type Asked, type Asker, type Told } from './entrances.ts';
import { everything, type Rights } from './rights.ts';
import type { Twins } from './twins.ts';

/** The rights and the type of the caller's application. */
export interface Role extends Rights {
  readonly type: ApplicationType;
  readonly expiresInMinutes?: number | undefined;
}

/** The callers of one tenant, with the ids and keys that they have received. These differ between tenants. */
export interface Cast {
  readonly tenantId: string;
  /** Sees all tokens in plaintext. It stands for every caller that sends the hidden data. */
  readonly author: Asker;
  /** Changes rights and settings. */
  readonly manager: Asker;
  /** The caller whose rights are tested, by its nth key: of its application, of a session, or an older one. */
  caller(key: number): Asker;
  /** Values of earlier answers, by name, for later requests. */
  readonly known: Map<string, string>;
  /** Stores the values that the answer to `by` gives to a caller. */
  learn(by: string, asked: Asked, told: Told): void;
}

const minuteMs = 60_000;

/** A person of the tenant, for whom no application acts. */
function createPerson(tenantId: string, settings: () => Record<string, string>, rights: Rights): Asker {
  const id = randomUUID();
  const who = { actor: { kind: 'application', id }, applicationId: id, applicationType: 'private' } as const;
  const principal = (): Principal => ({
    tenant: { id: tenantId, plan: 'enterprise', settings: settings() },
    ...who,
    ...rights,
  });
  return { key: 'none', identify: async () => ({ kind: 'authenticated', principal: principal() }) };
}

const byKey = ({ authenticator }: Twins, key: string): Asker => ({
  key,
  identify: () => authenticator.authenticate(key),
});

/** @throws Error when the vault refuses a request that the test needs. */
export async function must(twins: Twins, asker: Asker, asked: Asked): Promise<Record<string, Json>> {
  const told = await tell(twins, asker, asked);
  if ((told.status ?? 200) >= 300) throw new Error(`${asked.operation}: ${JSON.stringify(told)}`);
  return told.body as Record<string, Json>;
}

async function makeApplication(twins: Twins, manager: Asker, { expiresInMinutes, ...role }: Role) {
  const end = twins.clock.now().getTime() + (expiresInMinutes ?? 0) * minuteMs;
  const expiry = expiresInMinutes === undefined ? {} : { expires_at: new Date(end).toISOString() };
  const body = { name: 'caller', ...role, ...expiry };
  return must(twins, manager, { operation: 'createApplication', body });
}

/** Creates an application in the tenant. The result asks by its key. */
export async function newCaller(twins: Twins, manager: Asker, role: Role): Promise<Asker & { id: string }> {
  const { id, key } = await makeApplication(twins, manager, role);
  return { ...byKey(twins, key as string), id: id as string };
}

export async function openCast(twins: Twins, tenantId: string, role: Role): Promise<Cast> {
  let settings: Record<string, string> = {};
  const person = (rights: Rights) => createPerson(tenantId, () => settings, rights);
  const manager = person({ permissions: [...managementPermissions], rules: [] });
  const author = person(everything);
  const { id, key } = await newCaller(twins, manager, role);
  const keys = [key];
  const known = new Map([['$caller', id]]);

  return {
    tenantId,
    author,
    manager,
    caller: (index) => byKey(twins, keys[index % keys.length] ?? key),
    known,
    learn(by, { operation, body: asked }, { body }) {
      const answer = (body ?? {}) as Record<string, string>;
      if (operation === 'createTransaction' && answer['id']) known.set(`$transaction of ${by}`, answer['id']);
      if (operation === 'updateTenant') ({ settings = {} } = asked as { settings?: Record<string, string> });
      const { key: newKey, session_key: sessionKey, nonce } = answer;
      if (nonce !== undefined) known.set('$nonce', nonce);
      keys.push(...[newKey, sessionKey].filter((each) => each !== undefined));
    },
  };
}

/** The application that opens sessions is created at the first session. */
export async function collectorOf(twins: Twins, cast: Cast): Promise<Asker> {
  const key = cast.known.get('$collector');
  if (key !== undefined) return byKey(twins, key);
  const role: Role = { type: 'public', permissions: ['token:create'], rules: [] };
  const made = await newCaller(twins, cast.manager, role);
  cast.known.set('$collector', made.key);
  return made;
}
