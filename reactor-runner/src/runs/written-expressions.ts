import { descriptions, type Json, type OperationId } from '@token-vault/contracts';
import { outputsAndTags, outputsAndTagsAt } from '@token-vault/expressions';

const opening = /\{[{%]/g;

const quoted = (opens: string): string => `{{ '${opens}' }}`;
const quotedOpenings: ReadonlySet<string> = new Set(['{{', '{%'].map(quoted));
const asText = (text: string): string => text.replaceAll(opening, quoted);

/** The text as JavaScript makes it of a literal in a source: its line ends, and its escapes of quotes. */
const asLiteral = (text: string): string => text.replaceAll(/\r\n?/g, '\n').replaceAll(/\\(["'`\\])/g, '$1');

/** The operations whose answers show tokens to the code, and their tokens. */
const tokensIn: Partial<Record<OperationId, (answer: Json) => Json | undefined>> = {
  getToken: (answer) => [answer],
  listTokens: (answer) => fieldOf(answer, 'data'),
  searchTokens: (answer) => fieldOf(answer, 'data'),
};

const fieldOf = (value: Json, name: string): Json | undefined =>
  value !== null && typeof value === 'object' && !Array.isArray(value) ? value[name] : undefined;

/**
 * The expressions that the author of code wrote, in its source and its configuration. Any other text that the code passes on may come from its
 * caller, from data or from another server, so it is no expression (ADR 51).
 */
export class WrittenExpressions {
  /** Whether the code writes any `{{`. Else nothing in its templates is an expression. */
  readonly areInTemplates: boolean;
  readonly #written: ReadonlySet<string>;
  /** Descriptions of tokens that the code was shown, by field. Code may copy a token with its mask. */
  readonly #shown = new Map<string, Set<string>>();

  constructor(texts: readonly string[]) {
    this.areInTemplates = texts.some((text) => text.includes('{{'));
    const readings = texts.flatMap((text) => [...new Set([text, asLiteral(text)])]);
    this.#written = new Set(readings.flatMap((text) => [...outputsAndTagsAt(text).values()]));
  }

  /** Notes the descriptions of the tokens that an answer shows to the code. */
  noteShown(operation: OperationId, answer: Json): void {
    const tokens = tokensIn[operation]?.(answer);
    if (!Array.isArray(tokens)) return;
    for (const token of tokens)
      for (const field of descriptions) this.#noteTexts(field, fieldOf(token, field) ?? null);
  }

  #noteTexts(field: string, value: Json): void {
    if (typeof value === 'string' && value.search(opening) !== -1)
      this.#shown.set(field, (this.#shown.get(field) ?? new Set()).add(value));
    else if (value !== null && typeof value === 'object')
      for (const each of Object.values(value)) this.#noteTexts(field, each);
  }

  /** The text of this field of a token, with every expression that the author did not write as text. */
  inField(field: string, text: string): string {
    if (text.search(opening) === -1 || this.#shown.get(field)?.has(text)) return text;
    const result = this.#withOthersQuoted(text);
    // What decides is how the engine reads the result, e.g. behind a `{% raw %}`.
    const isWritten = (part: string) => this.#written.has(part) || quotedOpenings.has(part);
    return outputsAndTags(result)?.every(isWritten) ? result : asText(text);
  }

  #withOthersQuoted(text: string): string {
    const expressions = outputsAndTagsAt(text);
    const openings = new RegExp(opening);
    let result = '';
    let from = 0;
    for (let found = openings.exec(text); found; found = openings.exec(text)) {
      const [opens] = found;
      const expression = expressions.get(found.index) ?? '';
      const isWritten = this.#written.has(expression);
      result += text.slice(from, found.index) + (isWritten ? expression : quoted(opens));
      from = found.index + (isWritten ? expression.length : opens.length);
      openings.lastIndex = from;
    }
    return result + text.slice(from);
  }
}
