import { isDeepStrictEqual } from 'node:util';
import type { Json } from '@token-vault/contracts';
import fc from 'fast-check';
import { collectorOf, openCast, type Cast } from './cast.ts';
import { tell, type Asked, type Entrance, type Told } from './entrances.ts';
import { hiddenOf, placeholders, type Hidden } from './hidden.ts';
import type { Story, Step } from './histories.ts';
import { createLeveller } from './leveller.ts';
import type { Twins } from './twins.ts';

const minuteMs = 60_000;
const unknownTransaction = '00000000-0000-4000-8000-000000000000';

/** The values of a tenant or of the time for the placeholders of a request. */
function valuesOf({ known }: Cast, hidden: Hidden, now: Date): (name: string) => string | undefined {
  const values = new Map<string, string>([
    ...Object.entries(placeholders).map(([name, of]) => [of, hidden[name as keyof Hidden]] as const),
    ...known,
  ]);
  return (name) => {
    const minutes = /^\$in (\d+) minutes$/.exec(name)?.[1];
    if (minutes !== undefined) return new Date(now.getTime() + Number(minutes) * minuteMs).toISOString();
    return values.get(name) ?? (name.startsWith('$transaction') ? unknownTransaction : undefined);
  };
}

function fill(asked: Asked, valueOf: (name: string) => string | undefined): Asked {
  const replace = (_key: string, value: unknown) =>
    typeof value === 'string' ? (valueOf(value) ?? value) : value;
  return JSON.parse(JSON.stringify(asked), replace) as Asked;
}

type Asking = Extract<Step, { ask: Asked }>;

/** The answer to a step in one tenant. Answers to the author are not compared. */
async function play(
  twins: Twins,
  cast: Cast,
  hidden: Hidden,
  step: Asking,
  entrance: Entrance,
): Promise<Told[]> {
  const asked = fill(step.ask, valuesOf(cast, hidden, twins.clock.now()));
  if (step.by === 'caller') {
    const told = await entrance.ask(twins, cast.caller(step.key), asked);
    for (const each of told) cast.learn(step.by, asked, each);
    return told;
  }
  const asker = step.by === 'collector' ? await collectorOf(twins, cast) : cast[step.by];
  const told = await tell(twins, asker, asked);
  cast.learn(step.by, asked, told);
  return step.by === 'author' ? [] : [told];
}

/** Entries of concurrent writes stand in the log in any order. */
function inAnyOrder(told: Json): Json {
  const page = (told as { body?: { data?: Json[] } } | null)?.body?.data;
  if (Array.isArray(page)) page.sort((one, other) => (JSON.stringify(one) < JSON.stringify(other) ? -1 : 1));
  return told;
}

/** Plays a story in two tenants that differ in hidden data only. Gives the caller's answers in each, step by step. */
export async function toldByTwins(
  twins: Twins,
  { steps, role }: Story,
  entrance: Entrance,
): Promise<readonly [Json[], Json[]]> {
  const tenants = await twins.newPair();
  const casts = await Promise.all(tenants.map((tenantId) => openCast(twins, tenantId, role)));
  const levels = tenants.map(createLeveller);
  const told: [Json[], Json[]] = [[], []];
  for (const step of steps) {
    if (step.by === 'the clock') twins.clock.advance(step.minutes * minuteMs);
    else if (step.by === 'housekeeping') await twins.sweep();
    else
      await Promise.all(
        casts.map(async (cast, index) => {
          const hidden = hiddenOf[index === 0 ? 0 : 1];
          const answers = await play(twins, cast, hidden, step, entrance);
          for (const each of answers) {
            const level = levels[index]?.(each) ?? null;
            told[index === 0 ? 0 : 1].push(step.ask.operation === 'listLogs' ? inAnyOrder(level) : level);
          }
        }),
      );
  }
  return told;
}

/** Checks that both twins give the caller equal answers in every story. A failure prints a readable script. */
export const tellsTheSame = (
  twins: Twins,
  story: fc.Arbitrary<Story>,
  entrance: Entrance,
  onPassed: () => void = () => undefined,
) =>
  fc.asyncProperty(story, async (of) => {
    const [one, other] = await toldByTwins(twins, of, entrance);
    const differing = one.findIndex((each, index) => !isDeepStrictEqual(each, other[index]));
    if (differing >= 0) {
      const [first, second] = [one[differing], other[differing]].map((each) => JSON.stringify(each));
      throw new Error(`answer ${differing} differs:\n  ${first}\n  ${second}`);
    }
    onPassed();
  });
