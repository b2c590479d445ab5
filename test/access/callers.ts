import type { Grants } from '@token-vault/access';
import {
  secret,
  type AccessRule,
  type ApplicationType,
  type Permission,
  type Transform,
} from '@token-vault/contracts';
import { must, newCaller, type Role } from './cast.ts';
import type { Asker } from './entrances.ts';
import { everything, permissions, rule, type Rights } from './rights.ts';
import type { Twins } from './twins.ts';

/** The tenant, actor and rights that the vault must find for the caller. */
export interface Expected extends Grants {
  readonly applicationType: ApplicationType;
  /** For a session: the rights that limit it. */
  readonly authorizer?: Grants;
  /** For a session of the console, which is shown no plaintext. */
  readonly shownAtMost?: 'mask';
}

export interface CallerCell {
  /** Undefined: the key is not valid, and every request gets 401. */
  readonly expected: Expected | undefined;
  make(twins: Twins, manager: Asker): Promise<Asker>;
}

const minuteMs = 60_000;
const all = [...permissions];
const within = (transform: Transform, container = '/'): Rights => ({
  permissions: [],
  rules: [rule({ transform, container })],
});
const plain: Rights = { permissions: all, rules: [] };

const application = (rights: Rights, type: ApplicationType = 'private'): CallerCell => ({
  expected: { applicationType: type, ...rights },
  make: (twins, manager) => newCaller(twins, manager, { type, ...rights }),
});

/** A caller that could see everything, until `end` takes its rights away. */
const ended = (
  end: (twins: Twins, manager: Asker, made: Asker & { id: string }) => Promise<Asker>,
): CallerCell => ({
  expected: undefined,
  make: async (twins, manager) =>
    end(twins, manager, await newCaller(twins, manager, { type: 'private', ...everything })),
});

interface SessionCell {
  readonly granted: readonly AccessRule[];
  readonly authorizer?: Rights;
  /** The change to its authorizer or opener, or to itself, after it was made. */
  readonly then?: (twins: Twins, manager: Asker, authorizerId: string, openerId: string) => Promise<unknown>;
}

async function openSession(twins: Twins, manager: Asker) {
  const role: Role = { type: 'public', permissions: ['token:create'], rules: [] };
  const collector = await newCaller(twins, manager, role);
  const { session_key: key, nonce } = await must(twins, collector, { operation: 'createSession' });
  const asker: Asker = {
    key: key as string,
    identify: () => twins.authenticator.authenticate(key as string),
  };
  return { asker, nonce, openerId: collector.id };
}

const session = (
  expected: Expected | undefined,
  { granted, authorizer = everything, then }: SessionCell,
): CallerCell => ({
  expected,
  async make(twins, manager) {
    const { asker, nonce, openerId } = await openSession(twins, manager);
    const grantor = await newCaller(twins, manager, { type: 'private', ...authorizer });
    const body = { nonce, rules: granted };
    await must(twins, grantor, { operation: 'authorizeSession', body });
    await then?.(twins, manager, grantor.id, openerId);
    return asker;
  },
});

const allIds = [{ attribute: 'container', operator: 'starts_with', value: '/' } as const];
const revealingIds = (value: string) => [
  rule({ transform: 'reveal', conditions: [{ attribute: 'id', operator: 'starts_with', value }] }),
];
const revealingAll = [rule({ transform: 'reveal', conditions: allIds })];
const asSession = (rules: readonly AccessRule[], authorizer: Rights): Expected => ({
  applicationType: 'public',
  permissions: [],
  rules,
  authorizer,
});
const change = (twins: Twins, manager: Asker, id: string, rights: Rights) =>
  must(twins, manager, {
    operation: 'updateApplication',
    params: { id },
    body: { name: 'authorizer', ...rights },
  });
const regenerate = (twins: Twins, manager: Asker, id: string) =>
  must(twins, manager, { operation: 'regenerateApplicationKey', params: { id } });
const remove = (twins: Twins, manager: Asker, id: string) =>
  must(twins, manager, { operation: 'deleteApplication', params: { id } });

/** A browser that signed in with the key of an application that sees everything. */
async function signIn(twins: Twins, manager: Asker): Promise<Asker> {
  const owner = await newCaller(twins, manager, { type: 'private', ...everything });
  const { answer } = await twins.executor.execute('openConsoleSession', {
    traceId: 'trace',
    identify: () => owner.identify(),
    params: {},
    query: {},
    readBody: async () => secret(undefined),
  });
  const cookie = typeof answer.cookie === 'object' ? answer.cookie.set : '';
  return {
    key: '',
    headers: {
      Cookie: `vault-console=${cookie}`,
      Origin: twins.url,
      'SVC-CONSOLE-SESSION': cookie.split('.')[0] ?? '',
    },
    identify: () => twins.authenticator.authenticateConsole(cookie, 'token:read'),
  };
}

export const callers: Readonly<Record<string, CallerCell>> = {
  public: application({ permissions: ['token:create', 'token:update'], rules: [] }, 'public'),
  private: application(plain),
  masking: application(within('mask')),
  redacting: application(within('redact')),
  'revealing elsewhere': application(within('reveal', '/open/')),
  'revealing elsewhere, private': application({ ...within('reveal', '/open/'), permissions: all }),
  revealing: application(everything),
  'a session of the console': {
    expected: { applicationType: 'private', ...everything, shownAtMost: 'mask' },
    make: signIn,
  },
  management: application({ permissions: ['application:read'] as Permission[], rules: [] }, 'management'),
  'a session with conditions': session(asSession(revealingIds('l'), everything), {
    granted: revealingIds('l'),
  }),
  'a session narrowed since': session(asSession(revealingAll, plain), {
    granted: revealingAll,
    then: (twins, manager, id) => change(twins, manager, id, plain),
  }),
  'a session before it is authorized': {
    expected: undefined,
    make: async (twins, manager) => (await openSession(twins, manager)).asker,
  },
  'an expired session': session(undefined, {
    granted: revealingAll,
    then: async ({ clock }) => clock.advance(61 * minuteMs),
  }),
  'a session whose authorizer was deleted': session(undefined, { granted: revealingAll, then: remove }),
  'a session whose authorizer has a new key': session(undefined, { granted: revealingAll, then: regenerate }),
  'a session whose opener has a new key': session(undefined, {
    granted: revealingAll,
    then: (twins, manager, _authorizerId, openerId) => regenerate(twins, manager, openerId),
  }),
  deleted: ended(async (twins, manager, made) => {
    await remove(twins, manager, made.id);
    return made;
  }),
  'regenerated, by its old key': ended(async (twins, manager, made) => {
    await regenerate(twins, manager, made.id);
    return made;
  }),
  expired: {
    expected: undefined,
    async make(twins, manager) {
      const made = await newCaller(twins, manager, { type: 'private', ...everything, expiresInMinutes: 1 });
      twins.clock.advance(minuteMs);
      return made;
    },
  },
};
