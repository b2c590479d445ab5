import type { ApplicationType } from '@token-vault/contracts';
import fc from 'fast-check';
import { authorStep, authorTransaction, firstStep, idOf, slot } from './author-steps.ts';
import { callerStep, callerTransaction, guessed } from './caller-steps.ts';
import type { Role } from './cast.ts';
import type { Asked } from './entrances.ts';
import { rightsOf, sessionRights } from './rights.ts';

export type Step =
  | { readonly by: 'author' | 'manager' | 'collector'; readonly ask: Asked }
  /** `key`: the index among the keys that the caller has received. */
  | { readonly by: 'caller'; readonly key: number; readonly ask: Asked }
  | { readonly by: 'the clock'; readonly minutes: number }
  | { readonly by: 'housekeeping' };

export interface Story {
  /** The role of the caller. */
  readonly role: Role;
  readonly steps: readonly Step[];
}

/** Each of these steps may change the caller's answers: its rights, keys, sessions, or the settings. */
const managerStep = (type: ApplicationType): fc.Arbitrary<Step> => {
  const ofCaller = { params: { id: '$caller' } };
  const settings = fc.constantFrom(
    { data_misses_per_minute: '2' },
    { deduplicate_tokens: 'true' },
    { fingerprint_tokens: 'true', data_misses_per_minute: '0' },
    {},
  );
  return fc
    .oneof<fc.WeightedArbitrary<Asked>[]>(
      {
        weight: 3,
        arbitrary: rightsOf(type).map((rights) => ({
          operation: 'updateApplication' as const,
          ...ofCaller,
          body: { name: 'caller', ...rights },
        })),
      },
      {
        weight: 1,
        arbitrary: fc.constant({ operation: 'regenerateApplicationKey' as const, ...ofCaller }),
      },
      { weight: 1, arbitrary: fc.constant({ operation: 'deleteApplication' as const, ...ofCaller }) },
      {
        weight: 2,
        arbitrary: settings.map((each) => ({
          operation: 'updateTenant' as const,
          body: { name: 'twin', settings: each },
        })),
      },
      {
        weight: 1,
        arbitrary: fc.constant({ operation: 'listLogs' as const, query: { size: '100' } }),
      },
      { weight: 1, arbitrary: fc.constant({ operation: 'getUsageReport' as const }) },
    )
    .map((ask) => ({ by: 'manager', ask }));
};

const openSession: Step = { by: 'collector', ask: { operation: 'createSession' } };
const authorizeSession: fc.Arbitrary<Step> = sessionRights.map((rights) => ({
  by: 'caller',
  key: 0,
  ask: { operation: 'authorizeSession', body: { nonce: '$nonce', ...rights } },
}));

/** Opened, authorized and used at once. */
const session: fc.Arbitrary<readonly Step[]> = fc
  .tuple(authorizeSession, callerStep, slot)
  .map(([authorize, step, of]) => {
    const get: Asked = { operation: 'getToken', params: { id: idOf(of) } };
    return [openSession, authorize, { ...step, key: 1 }, { by: 'caller', key: 1, ask: get }];
  });

const timeStep: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc
      .constantFrom(2, 35, 61)
      .map((minutes) => ({ by: 'the clock', minutes }) as const satisfies Step),
  },
  { weight: 1, arbitrary: fc.constant({ by: 'housekeeping' } as const) },
);

/**
 * Deduplication shows its caller whether equal data exists, and so do fingerprints by a setting (ADR 18, What
 * remains). In such stories no caller may guess hidden data.
 */
function withoutGuesses(steps: readonly Step[]): readonly Step[] {
  const publishesEquality = steps.some(
    (step) => step.by === 'manager' && /deduplicate_tokens|fingerprint_tokens/.test(JSON.stringify(step)),
  );
  if (!publishesEquality) return steps;
  return steps.map((step) =>
    step.by === 'caller'
      ? (JSON.parse(JSON.stringify(step).replaceAll(guessed.number, '5555555555554444')) as Step)
      : step,
  );
}

const storyOf = (type: ApplicationType, movesClock: boolean): fc.Arbitrary<Story> => {
  const later = fc.oneof<fc.WeightedArbitrary<Step>[]>(
    { weight: 6, arbitrary: authorStep },
    { weight: 14, arbitrary: callerStep },
    { weight: 3, arbitrary: managerStep(type) },
    { weight: 1, arbitrary: fc.constant(openSession) },
    { weight: 1, arbitrary: authorizeSession },
    ...(movesClock ? [{ weight: 4, arbitrary: timeStep }] : []),
  );
  const first = fc.tuple(firstStep(0), firstStep(1), firstStep(2));
  // Beginnings that chance rarely produces.
  const begun: fc.Arbitrary<readonly Step[]> = fc.oneof(
    { weight: 3, arbitrary: fc.constant([]) },
    { weight: 2, arbitrary: session },
    { weight: 1, arbitrary: authorTransaction },
    { weight: 1, arbitrary: callerTransaction },
  );
  const expiry = fc.constantFrom(undefined, undefined, undefined, 30);
  return fc
    .tuple(rightsOf(type), expiry, first, begun, fc.array(later, { maxLength: 9 }))
    .map(([rights, expiresInMinutes, tokens, begin, others]) =>
      readable({
        role: { type, ...rights, expiresInMinutes },
        steps: withoutGuesses([...tokens, ...begin, ...others]),
      }),
    );
};

/** The output of a failure: the steps of each caller, line by line. */
function scriptOf({ role, steps }: Story): string {
  const lines = steps.map((step) => {
    if (!('ask' in step))
      return `${step.by}: ${'minutes' in step ? `${step.minutes} minutes later` : 'sweeps'}`;
    const { operation, ...rest } = step.ask;
    const by = step.by === 'caller' ? `caller (key ${step.key})` : step.by;
    return `${by}: ${operation} ${JSON.stringify(rest)}`;
  });
  return ['', `the caller is ${JSON.stringify(role)}`, ...lines, ''].join('\n');
}

const readable = (story: Story): Story =>
  Object.defineProperty(story, fc.toStringMethod, { value: () => scriptOf(story), enumerable: false });

const storiesOf = (movesClock: boolean): fc.Arbitrary<Story> =>
  fc
    .constantFrom<ApplicationType>('private', 'private', 'private', 'public')
    .chain((type) => storyOf(type, movesClock));

/** Any number of these can run in one vault at the same time. */
export const timelessStory = storiesOf(false);
/** One at a time, because all stories in a vault share its clock. */
export const timedStory = storiesOf(true);
export const story = fc.oneof(timelessStory, timedStory);
