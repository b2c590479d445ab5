import { descriptions, type Json } from '@token-vault/contracts';
import { containsExpression } from '@token-vault/expressions';

/** An output or a tag of Liquid, or the beginning of one that does not end. */
const segments = /\{\{[^]*?\}\}|\{%[^]*?%\}|\{[{%]/g;
/** In a source: an expression of which a part is known only when the code runs. `'{{ ' + id + ' }}'` is one, too. */
const hasUnknownPart = /\$\{|\\|['"`]\s*[+,]/;

const openings = /\{[{%]/g;
const asText = (segment: string): string => segment.replaceAll(openings, (opening) => `{{ '${opening}' }}`);

/**
 * The expressions that the author of code wrote, in its source and its configuration. Any other text that the code passes on may come from its
 * caller, from data or from another server, so it is no expression (ADR 51).
 */
export class WrittenExpressions {
  /** Whether the code writes any `{{`. Else nothing in its templates is an expression. */
  readonly areInTemplates: boolean;
  /** Whether the code builds expressions when it runs. Then any text may be its own. */
  readonly #areBuilt: boolean;
  readonly #written: ReadonlySet<string>;
  /** Descriptions of tokens that the code was shown, by field. Code may copy a token with its mask. */
  readonly #shown = new Map<string, Set<string>>();

  constructor(texts: readonly string[]) {
    this.areInTemplates = texts.some((text) => text.includes('{{'));
    const found = texts.flatMap((text) => text.match(segments) ?? []);
    this.#areBuilt = found.some((segment) => segment.length === 2 || hasUnknownPart.test(segment));
    this.#written = new Set(found);
  }

  /** Notes the descriptions of the tokens of an answer to the code. */
  noteShown(answer: Json): void {
    if (answer === null || typeof answer !== 'object') return;
    if (Array.isArray(answer)) return answer.forEach((each) => this.noteShown(each));
    for (const [name, value] of Object.entries(answer)) {
      if ((descriptions as readonly string[]).includes(name)) this.#noteTexts(name, value);
      else if (name !== 'data') this.noteShown(value);
    }
  }

  #noteTexts(field: string, value: Json): void {
    if (typeof value === 'string' && containsExpression(value))
      this.#shown.set(field, (this.#shown.get(field) ?? new Set()).add(value));
    else if (value !== null && typeof value === 'object')
      for (const each of Object.values(value)) this.#noteTexts(field, each);
  }

  /** The text of this field of a token, with every expression that the author did not write as text. */
  inField(field: string, text: string): string {
    if (this.#areBuilt || this.#shown.get(field)?.has(text)) return text;
    return text.replaceAll(segments, (segment) => (this.#written.has(segment) ? segment : asText(segment)));
  }
}
