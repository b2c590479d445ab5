// Postgres' hashtextextended(text, 0) is lookup3 of Bob Jenkins with a known seed: each step of it can be reversed. So a writer of the
// database finds bytes that give a text the hash of another.

type Words = readonly [number, number, number];

const turn = (word: number, by: number): number => ((word << by) | (word >>> (32 - by))) >>> 0;
const blockBytes = 12;

/** One step: `to = (to - from) ^ turn(from, by)`, then `from = from + next`. */
const mixing = [4, 6, 8, 16, 19, 4] as const;
const finalTurns = [14, 11, 25, 16, 4, 14, 24] as const;

function mix(words: Words): Words {
  const w = [...words];
  mixing.forEach((by, step) => {
    const [to, from, next] = [step % 3, (step + 2) % 3, (step + 1) % 3];
    w[to] = (((w[to]! - w[from]!) >>> 0) ^ turn(w[from]!, by)) >>> 0;
    w[from] = (w[from]! + w[next]!) >>> 0;
  });
  return [w[0]!, w[1]!, w[2]!];
}

function unmix(words: Words): Words {
  const w = [...words];
  mixing.toReversed().forEach((by, back) => {
    const step = mixing.length - 1 - back;
    const [to, from, next] = [step % 3, (step + 2) % 3, (step + 1) % 3];
    w[from] = (w[from]! - w[next]!) >>> 0;
    w[to] = (((w[to]! ^ turn(w[from], by)) >>> 0) + w[from]) >>> 0;
  });
  return [w[0]!, w[1]!, w[2]!];
}

/** Reverses the last rounds of the hash: each is `to = (to ^ from) - turn(from, by)`. */
function unfinish(words: Words): Words {
  const w = [...words];
  finalTurns.toReversed().forEach((by, back) => {
    const step = finalTurns.length - 1 - back;
    const [to, from] = [(step + 2) % 3, (step + 1) % 3];
    w[to] = (((w[to]! + turn(w[from]!, by)) >>> 0) ^ w[from]!) >>> 0;
  });
  return [w[0]!, w[1]!, w[2]!];
}

const plus = (one: Words, other: Words, sign = 1): Words => [
  (one[0] + sign * other[0]) >>> 0,
  (one[1] + sign * other[1]) >>> 0,
  (one[2] + sign * other[2]) >>> 0,
];

const wordsAt = (bytes: Buffer, at: number): Words => [
  bytes.readUInt32LE(at),
  bytes.readUInt32LE(at + 4),
  bytes.readUInt32LE(at + 8),
];

/** The last, shorter block. The lowest byte of the third word stays free for the length. */
function lastWords(bytes: Buffer): Words {
  const padded = Buffer.alloc(blockBytes);
  bytes.copy(padded, 0, 0, Math.min(8, bytes.length));
  if (bytes.length > 8) bytes.copy(padded, 9, 8);
  return wordsAt(padded, 0);
}

/**
 * The bytes to put in place of `free` (at least 23 equal characters in `text`) so that the text has this hash. They are letters and signs
 * that a row of Postgres shows without quotes.
 */
export function collidingPart(text: string, free: string, hash: bigint): string {
  const bytes = Buffer.from(text);
  const start = bytes.indexOf(free);
  bytes.fill('A', start, start + free.length);
  const at = Math.ceil(start / blockBytes) * blockBytes;
  const seed = (0x9e3779b9 + bytes.length + 3923095) >>> 0;
  let before: Words = [seed, seed, seed];
  for (let place = 0; place < at; place += blockBytes) before = mix(plus(before, wordsAt(bytes, place)));
  const wanted = BigInt.asUintN(64, hash);
  const after: Words[] = [];
  let rest = at + blockBytes;
  for (; bytes.length - rest >= blockBytes; rest += blockBytes) after.unshift(wordsAt(bytes, rest));
  const last = lastWords(bytes.subarray(rest));
  const found = Buffer.alloc(blockBytes);
  for (let guess = 0; guess < 2 ** 24; guess++) {
    let state = plus(unfinish([guess, Number(wanted >> 32n), Number(wanted & 0xffffffffn)]), last, -1);
    for (const block of after) state = plus(unmix(state), block, -1);
    plus(unmix(state), before, -1).forEach((word, index) => found.writeUInt32LE(word, 4 * index));
    if (!/^[\w.+/:;=!#$%&*?@^~|<>[\]{}`-]{12}$/.test(found.toString('latin1'))) continue;
    found.copy(bytes, at);
    return bytes.toString('utf8', start, start + free.length);
  }
  throw new Error('no such bytes');
}
