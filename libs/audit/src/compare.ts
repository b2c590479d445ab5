import { printable } from '@token-vault/contracts';

/** A stored event, for comparison with its signed digest. */
export interface Found {
  readonly position: string;
  readonly digest: string;
  readonly type: string;
  readonly stream: string;
  readonly revision: number;
}

/** The writer of the event chose its type and its stream, so control characters are replaced. */
export const nameOf = ({ type, stream, revision }: Pick<Found, 'type' | 'stream' | 'revision'>): string =>
  `${printable(`${type} of ${stream}`)}, revision ${revision},`;

export interface Finding {
  /** The position of the difference. */
  readonly position: string;
  readonly tenantId: string;
  readonly problem: string;
}

/** For a store whose positions have no gaps (`hasDensePositions`): so many positions have no event. */
export const gapOf = (count: bigint): string =>
  count === 1n ? 'the event is missing' : `${count} events are missing from here on`;

export const gapAtEndOf = (count: bigint): string => `${count} events at the end of the log are missing`;

type Difference = 'none' | 'moved' | 'missing' | 'extra' | 'altered';

function differenceOf(
  signed: string | undefined,
  found: string | undefined,
  isSigned: ReadonlySet<string>,
  isFound: ReadonlySet<string>,
): Difference {
  if (signed === found) return 'none';
  if (found === undefined) return 'missing';
  if (signed === undefined) return 'extra';
  if (isSigned.has(found)) return isFound.has(signed) ? 'moved' : 'missing';
  return isFound.has(signed) ? 'extra' : 'altered';
}

/** The differences between the signed digests of a stretch and its stored events, as messages. */
export function compareStretch(
  tenantId: string,
  signed: readonly string[],
  found: readonly Found[],
  end: string,
): Finding[] {
  if (signed.length === found.length && signed.every((digest, index) => digest === found[index]?.digest))
    return [];
  const findings: Finding[] = [];
  const isSigned = new Set(signed);
  const isFound = new Set(found.map(({ digest }) => digest));
  for (let i = 0, j = 0; i < signed.length || j < found.length;) {
    const event = found[j];
    const difference = differenceOf(signed[i], event?.digest, isSigned, isFound);
    if (difference !== 'extra') i++;
    if (difference !== 'missing') j++;
    const problem = problems[difference](event ? nameOf(event) : 'the event');
    if (problem) findings.push({ position: event?.position ?? end, tenantId, problem });
  }
  return findings;
}

const problems: Readonly<Record<Difference, (name: string) => string | undefined>> = {
  none: () => undefined,
  moved: (name) => `${name} is not in its place`,
  missing: () => 'an event that was signed is missing before this',
  extra: (name) => `${name} was put in`,
  altered: (name) => `${name} is not what was signed`,
};
