/** No field name of the interface is longer, so a longer name is not a misspelling. */
const maxLength = 40;

/** The number of insertions, deletions and replacements that change one text into the other. */
function distance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let i = 0; i < from.length; i += 1) {
    const next = [i + 1];
    for (let j = 0; j < to.length; j += 1)
      next.push(
        Math.min((next[j] ?? 0) + 1, (row[j + 1] ?? 0) + 1, (row[j] ?? 0) + (from[i] === to[j] ? 0 : 1)),
      );
    row = next;
  }
  return row.at(-1) ?? 0;
}

const folded = (name: string): string => name.toLowerCase().replaceAll(/[^a-z0-9]/g, '');

/** The known name that is most likely meant by the misspelled `name`; undefined when none is similar. */
export function nearestName(name: string, known: readonly string[]): string | undefined {
  if (name.length > maxLength) return undefined;
  const wanted = folded(name);
  if (wanted === '') return undefined;
  const [best] = known
    .map((each) => ({ each, far: distance(wanted, folded(each)) }))
    .sort((left, right) => left.far - right.far);
  const furthest = wanted.length <= 3 ? 1 : Math.max(2, Math.floor(wanted.length / 3));
  return best && best.far <= furthest ? best.each : undefined;
}
