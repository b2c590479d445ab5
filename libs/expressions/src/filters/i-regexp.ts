/** Counted repetitions are unrolled; a pattern that needs more states is refused. */
const maxStates = 2_000;
/** Maximum number of parts, including those without a state: `((){999}){999}` has no state. */
const maxParts = 10_000;
const maxPatternLength = 1_000;

type Test = (character: string) => boolean;
type State =
  | { readonly kind: 'test'; readonly test: Test; next: number }
  | { readonly kind: 'split'; next: number; other: number }
  | { readonly kind: 'end' };

type Node =
  | { readonly kind: 'test'; readonly test: Test }
  | { readonly kind: 'sequence'; readonly items: readonly Node[] }
  | { readonly kind: 'choice'; readonly items: readonly Node[] }
  | { readonly kind: 'repeat'; readonly item: Node; readonly min: number; readonly max: number };

class PatternError extends Error {}

const quantifier = /^\{(\d{1,4})(,(\d{1,4})?)?\}/;
const characterClass = /^\[(?:[^\\[\]]|\\[()*+\-.?[\\\]^nrt{|}]|\\[pP]\{[A-Z][a-z]?\})+\]/u;
const category = /^\\[pP]\{[A-Z][a-z]?\}/;
const controls: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t' };

/** Recursive descent over RFC 9485's grammar. */
class Parser {
  readonly #pattern: string;
  #at = 0;

  constructor(pattern: string) {
    this.#pattern = pattern;
  }

  parse(): Node {
    const node = this.#choice();
    if (this.#at < this.#pattern.length) throw new PatternError('unexpected character');
    return node;
  }

  #choice(): Node {
    const items = [this.#sequence()];
    while (this.#take('|')) items.push(this.#sequence());
    return items.length === 1 && items[0] !== undefined ? items[0] : { kind: 'choice', items };
  }

  #sequence(): Node {
    const items: Node[] = [];
    while (this.#at < this.#pattern.length && !'|)'.includes(this.#peek()))
      items.push(this.#repeated(this.#atom()));
    return { kind: 'sequence', items };
  }

  #repeated(item: Node): Node {
    if (this.#take('*')) return { kind: 'repeat', item, min: 0, max: Infinity };
    if (this.#take('+')) return { kind: 'repeat', item, min: 1, max: Infinity };
    if (this.#take('?')) return { kind: 'repeat', item, min: 0, max: 1 };
    const counted = this.#takeMatch(quantifier);
    if (counted === undefined) return item;
    const min = Number(counted[1]);
    const open = counted[3] === undefined ? Infinity : Number(counted[3]);
    const max = counted[2] === undefined ? min : open;
    if (max < min) throw new PatternError('quantifier');
    return { kind: 'repeat', item, min, max };
  }

  #atom(): Node {
    if (this.#take('(')) {
      const inner = this.#choice();
      if (!this.#take(')')) throw new PatternError('parenthesis');
      return inner;
    }
    const klass = this.#takeMatch(characterClass) ?? this.#takeMatch(category);
    if (klass !== undefined) {
      const regexp = new RegExp(`^${klass[0]}$`, 'u');
      return { kind: 'test', test: (character) => regexp.test(character) };
    }
    if (this.#take('.'))
      return { kind: 'test', test: (character) => character !== '\n' && character !== '\r' };
    return this.#literal();
  }

  #literal(): Node {
    let literal = this.#next();
    if (literal === '\\') {
      const escaped = this.#next();
      if (!'()*+-.?[\\]^nrt{|}'.includes(escaped)) throw new PatternError('escape');
      literal = controls[escaped] ?? escaped;
    } else if ('()*+.?[]{|}'.includes(literal)) throw new PatternError('unexpected character');
    return { kind: 'test', test: (character) => character === literal };
  }

  #peek(): string {
    return this.#pattern.charAt(this.#at);
  }

  #take(character: string): boolean {
    if (this.#peek() !== character) return false;
    this.#at += 1;
    return true;
  }

  #takeMatch(regexp: RegExp): RegExpExecArray | undefined {
    const match = regexp.exec(this.#pattern.slice(this.#at));
    if (match !== null) this.#at += match[0].length;
    return match ?? undefined;
  }

  #next(): string {
    const point = this.#pattern.codePointAt(this.#at);
    if (point === undefined) throw new PatternError('unexpected end');
    const character = String.fromCodePoint(point);
    this.#at += character.length;
    return character;
  }
}

/** Thompson's construction: returns the first state of `node`, when the next part begins at state `next`. */
function build(node: Node, next: number, states: State[], budget: { partsLeft: number }): number {
  budget.partsLeft -= 1;
  if (budget.partsLeft < 0) throw new PatternError('too many parts');
  const add = (state: State): number => {
    if (states.length >= maxStates) throw new PatternError('too many states');
    return states.push(state) - 1;
  };
  switch (node.kind) {
    case 'test':
      return add({ kind: 'test', test: node.test, next });
    case 'sequence':
      return node.items.reduceRight((following, item) => build(item, following, states, budget), next);
    case 'choice':
      return node.items
        .map((item) => build(item, next, states, budget))
        .reduce((one, other) => add({ kind: 'split', next: one, other }));
    case 'repeat': {
      let first = next;
      if (node.max === Infinity) {
        const loop = { kind: 'split' as const, next, other: next };
        first = add(loop);
        loop.other = build(node.item, first, states, budget);
      } else {
        for (let count = node.min; count < node.max; count += 1)
          first = add({ kind: 'split', next, other: build(node.item, first, states, budget) });
      }
      for (let count = 0; count < node.min; count += 1) first = build(node.item, first, states, budget);
      return first;
    }
  }
}

export class Regexp {
  readonly #states: readonly State[];
  readonly #start: number;

  constructor(states: readonly State[], start: number) {
    this.#states = states;
    this.#start = start;
  }

  /** Whether the whole text, or a part of it, matches. `spend` is called for every step, and may throw. */
  test(text: string, scope: 'whole' | 'part', spend: (steps: number) => void): boolean {
    let active = this.#reach([this.#start]);
    for (const character of text) {
      spend(1 + active.size);
      if (scope === 'part' && this.#isEnd(active)) return true;
      const next: number[] = scope === 'part' ? [this.#start] : [];
      for (const index of active) {
        const state = this.#states[index];
        if (state?.kind === 'test' && state.test(character)) next.push(state.next);
      }
      active = this.#reach(next);
      if (active.size === 0) return false;
    }
    return this.#isEnd(active);
  }

  #reach(from: readonly number[]): ReadonlySet<number> {
    const reached = new Set<number>();
    const pending = [...from];
    for (let index = pending.pop(); index !== undefined; index = pending.pop()) {
      if (reached.has(index)) continue;
      reached.add(index);
      const state = this.#states[index];
      if (state?.kind === 'split') pending.push(state.next, state.other);
    }
    return reached;
  }

  /** The end is the first state that `compileRegexp` makes. */
  #isEnd(active: ReadonlySet<number>): boolean {
    return active.has(0);
  }
}

/** Compiles an I-Regexp (RFC 9485); undefined when it is not valid, or too large. */
export function compileRegexp(pattern: string): Regexp | undefined {
  if (pattern.length > maxPatternLength) return undefined;
  try {
    const states: State[] = [{ kind: 'end' }];
    const start = build(new Parser(pattern).parse(), 0, states, { partsLeft: maxParts });
    return new Regexp(states, start);
  } catch (error) {
    // A SyntaxError is an unknown Unicode category or a reversed range.
    if (error instanceof PatternError || error instanceof SyntaxError || error instanceof RangeError)
      return undefined;
    throw error;
  }
}
