import { RE2JS, RE2JSException } from 're2js';

const maxPatternLength = 1_000;
/** Sum of the counts of a pattern, which bounds the work to compile it. */
const maxCounts = 1_000;
/** Instructions of the compiled pattern. */
const maxInstructions = 2_000;
/** Instructions that one step follows over one character, in the worst case. */
const instructionsOfStep = 32;

const category = String.raw`\\[pP]\{[A-Z][a-z]?\}`;
const escape = String.raw`\\[()*+\-.?[\\\]^nrt{|}]`;
const characterClass = String.raw`\[(?:[^\\[\]]|${escape}|${category})+\]`;
const literal = String.raw`[^()*+.?[\\\]{|}]`;
const quantifier = String.raw`[*+?]|\{(?<min>\d{1,4})(?:,(?<max>\d{1,4})?)?\}`;
/** The grammar of RFC 9485, but for the balance of parentheses, which RE2 checks. */
const part = new RegExp(
  `(?:(?<atom>${characterClass}|${category}|${escape}|${literal}|[.)])(?:${quantifier})?)|[(|]`,
  'uy',
);
/** Atoms that RE2 reads in another way. */
const inRe2: Readonly<Record<string, string>> = {
  '.': String.raw`[^\n\r]`,
  '^': String.raw`\^`,
  $: String.raw`\$`,
};

/** The pattern in the syntax of RE2. Undefined when it is not an I-Regexp, or repeats too much. */
function toRe2(pattern: string): string | undefined {
  let translated = '';
  let counts = 0;
  part.lastIndex = 0;
  while (part.lastIndex < pattern.length) {
    const found = part.exec(pattern);
    if (found === null) return undefined;
    const { atom = '', min = '0', max = min } = found.groups ?? {};
    counts += Math.max(Number(min), Number(max));
    if (counts > maxCounts) return undefined;
    translated += (inRe2[atom] ?? atom) + found[0].slice(atom.length);
  }
  return translated;
}

/** A compiled I-Regexp. RE2 takes time linear in the text, and does not backtrack. */
export class Regexp {
  readonly #compiled: RE2JS;
  readonly #stepsOfCharacter: number;

  constructor(compiled: RE2JS) {
    this.#compiled = compiled;
    this.#stepsOfCharacter = Math.ceil(compiled.programSize() / instructionsOfStep);
  }

  /** Whether the whole text, or a part of it, matches. `spend` is called with the number of steps before, and may throw. */
  test(text: string, scope: 'whole' | 'part', spend: (steps: number) => void): boolean {
    spend(1 + text.length * this.#stepsOfCharacter);
    return scope === 'whole' ? this.#compiled.testExact(text) : this.#compiled.test(text);
  }
}

/** Compiles an I-Regexp (RFC 9485); undefined when it is not valid, or too large. */
export function compileRegexp(pattern: string): Regexp | undefined {
  const translated = pattern.length > maxPatternLength ? undefined : toRe2(pattern);
  if (translated === undefined) return undefined;
  try {
    const compiled = RE2JS.compile(translated);
    return compiled.programSize() > maxInstructions ? undefined : new Regexp(compiled);
  } catch (error) {
    // Unbalanced parentheses, a reversed range, or an unknown category.
    if (error instanceof RE2JSException) return undefined;
    throw error;
  }
}
