import { setOwn, type Json } from './json.ts';
import { findClose, longestReference, quotedBraces } from './reference-scanner.ts';

/** Beyond these, no expression of the code is evaluated: it cannot be told from the data that the code was given. */
const mostReferences = 1_000;
const mostCharacters = 1024 * 1024;

/** A copy in which no text is an expression: `{{` stays `{{` when the references are replaced. */
const quoted = (text: string): string => text.replaceAll('{{', quotedBraces);

/**
 * Tells expressions that code wrote from texts that the code was given as data, when it passes both on in one request. Code has the rights
 * of its application; the author of a text that the code was given must not have a token read by these rights (the confused deputy).
 *
 * Code whose source and configuration contain no `{{` writes no expressions: nothing that it passes on is one. In other code, a reference
 * that stands in the data in the same characters is text, and so is one whose beginning does.
 */
export class GivenText {
  readonly #writesExpressions: boolean;
  readonly #given = new Set<string>();
  /** References without an end. */
  readonly #begun = new Set<string>();
  #characters = 0;
  #isFull = false;

  /** @param written the source of the code and its configuration */
  constructor(written: readonly string[]) {
    this.#writesExpressions = written.some((text) => text.includes('{{'));
  }

  /** Data that the code is given: arguments, answers. */
  note(value: Json | undefined): void {
    if (!this.#writesExpressions || this.#isFull) return;
    if (typeof value === 'string') this.#noteText(value);
    else if (Array.isArray(value)) for (const item of value) this.note(item);
    else if (typeof value === 'object' && value !== null)
      for (const [name, item] of Object.entries(value)) {
        this.#noteText(name);
        this.note(item);
      }
  }

  /** The value with every expression in its strings that is data written as text. Names of fields are never expressions. */
  quoteIn(value: Json): Json {
    if (typeof value === 'string') return value.includes('{{') ? this.#quoteInText(value) : value;
    if (Array.isArray(value)) return value.map((item) => this.quoteIn(item));
    if (typeof value !== 'object' || value === null) return value;
    const copy: Record<string, Json> = {};
    for (const [name, item] of Object.entries(value)) setOwn(copy, name, this.quoteIn(item));
    return copy;
  }

  /** Also references that begin within another one are noted, and such without an end: the code may cut and join texts. */
  #noteText(text: string): void {
    for (let open = text.indexOf('{{'); open >= 0; open = text.indexOf('{{', open + 1)) {
      const close = findClose(text, open + 2);
      const reference = text.slice(open, close === undefined ? open + longestReference : close + 2);
      (close === undefined ? this.#begun : this.#given).add(reference.trimEnd());
      this.#characters += reference.length;
      const count = this.#given.size + this.#begun.size;
      this.#isFull = count > mostReferences || this.#characters > mostCharacters;
      if (this.#isFull) return;
    }
  }

  #quoteInText(text: string): string {
    if (!this.#writesExpressions || this.#isFull) return quoted(text);
    const parts: string[] = [];
    let at = 0;
    for (let open = text.indexOf('{{'); open >= 0; open = text.indexOf('{{', at)) {
      const close = findClose(text, open + 2);
      parts.push(text.slice(at, open));
      at = close === undefined ? text.length : close + 2;
      const reference = text.slice(open, at);
      parts.push(this.#isData(reference) ? quoted(reference) : reference);
    }
    return parts.join('') + text.slice(at);
  }

  #isData(reference: string): boolean {
    return this.#given.has(reference) || [...this.#begun].some((begun) => reference.startsWith(begun));
  }
}
