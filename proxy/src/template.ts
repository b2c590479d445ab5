import {
  cutAtReferences,
  ExpressionEvaluationError,
  ExpressionSyntaxError,
  findTokenReferences,
  limits as expressionLimits,
  outputText,
  substituteTokens,
  type DetokenizedToken,
  type Json,
  type RequestExpressions,
  type TokenReferences,
} from '@token-vault/expressions';
import { ValidationError } from '@token-vault/contracts';

/** The place of an expression, and how its value is written there. */
interface Hole {
  readonly field: string;
  readonly index: number;
  readonly write: (value: Json) => string;
}

/** A text with holes for the values of expressions. */
export type Pieces = readonly (string | Hole)[];

export type Writing = (text: string) => string;

/** How a place is written. */
export interface Writings {
  /** Converts the text around expressions; the text stays as it is unless this is given. */
  readonly around?: Writing;
  /** Writes a value between other text, so that the value can neither end this place nor begin another. */
  readonly value: Writing;
  /** Writes a value that is the whole text. */
  readonly alone?: (value: Json) => string;
}

/** Characters of one value of JSON or a form that holds an expression. Such a value is read and written in one piece. */
export const mostOfPlace = 1024 * 1024;
export const tooLong = 'holds an expression in a value of more than 1 MiB';

const maxFieldLength = 100;
const asItIs: Writing = (text) => text;

/** Arguments are named `args.<field>[<n>]`, by the library that evaluates them. */
const fieldOf = (path: string): string => path.replace(/^args\.?/, '').replace(/\[\d+\]$/, '') || 'request';

/** An expression that is wrong as a 400 that names its place. */
function asRefusal(error: unknown, field?: string): unknown {
  if (!(error instanceof ExpressionSyntaxError || error instanceof ExpressionEvaluationError)) return error;
  return ValidationError.of(field ?? fieldOf(error.field ?? ''), error.message);
}

/** The expressions of one request, by their places: `query.<name>`, `headers.<name>`, `body`. */
export class Template {
  readonly #sources: Record<string, string[]> = {};
  #references = 0;

  /**
   * Cuts the text of a place into pieces. @throws ValidationError naming the place
   */
  cut(place: string, text: string, { around = asItIs, value, alone }: Writings): Pieces {
    const field = place.slice(0, maxFieldLength).toWellFormed();
    try {
      const parts = cutAtReferences(text, expressionLimits.references - this.#references);
      const isAlone = parts.length === 1;
      return parts.map((part) => {
        if (!part.isReference) return around(part.text);
        const sources = (this.#sources[field] ??= []);
        const index = sources.push(part.text) - 1;
        this.#references += 1;
        const among = (given: Json) => value(outputText(given));
        return { field, index, write: (isAlone ? alone : undefined) ?? among };
      });
    } catch (error) {
      throw asRefusal(error, field);
    }
  }

  /** @throws ValidationError naming the place of an expression that is wrong */
  references(): TokenReferences {
    try {
      const { tokens, ambiguous, hasFilters } = findTokenReferences(this.#sources);
      const named = (paths: ReadonlyMap<string, string>) =>
        new Map([...paths].map(([id, path]) => [id, fieldOf(path)]));
      return { tokens: named(tokens), ambiguous: named(ambiguous), hasFilters };
    } catch (error) {
      throw asRefusal(error);
    }
  }

  /** Gives the function that writes pieces with the values of their expressions. @throws ValidationError */
  async filledBy(
    expressions: RequestExpressions,
    tokens: ReadonlyMap<string, DetokenizedToken>,
  ): Promise<(pieces: Pieces) => string> {
    try {
      const values = (await substituteTokens(expressions, this.#sources, (id) => tokens.get(id))) as Readonly<
        Record<string, readonly Json[]>
      >;
      return (pieces) =>
        pieces
          .map((piece) =>
            typeof piece === 'string' ? piece : piece.write(values[piece.field]?.[piece.index] ?? null),
          )
          .join('');
    } catch (error) {
      throw asRefusal(error);
    }
  }
}
