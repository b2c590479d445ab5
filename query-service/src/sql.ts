import type { QueryConfig } from 'pg';

/** What may stand as a parameter of a statement. */
export type SqlParameter = string | number | boolean | Date | null | readonly string[];

/**
 * A piece of SQL with its parameters. Only literals of the program become text; everything else is a parameter, so a
 * statement put together at run time cannot be injected into.
 */
export interface Sql {
  readonly texts: readonly string[];
  readonly parameters: readonly (Sql | SqlParameter)[];
}

export function sql(texts: TemplateStringsArray, ...parameters: readonly (Sql | SqlParameter)[]): Sql {
  return { texts, parameters };
}

export const nothing: Sql = sql``;

/** The pieces in parentheses, any of which may hold; false when there are none. */
export const anyOf = (pieces: readonly Sql[]): Sql => joined(pieces, ' or ', sql`false`);

/** The pieces in parentheses, all of which must hold; true when there are none. */
export const allOf = (pieces: readonly Sql[]): Sql => joined(pieces, ' and ', sql`true`);

function joined(pieces: readonly Sql[], separator: string, ifNone: Sql): Sql {
  if (pieces.length === 0) return ifNone;
  const between = pieces.slice(1).map(() => `)${separator}(`);
  return { texts: ['((', ...between, '))'], parameters: pieces };
}

/** The statement as node-postgres takes it. */
export function compile(statement: Sql): QueryConfig {
  const values: unknown[] = [];
  const write = (piece: Sql): string =>
    piece.parameters.reduce<string>((text, parameter, index) => {
      const written = isSql(parameter) ? write(parameter) : `$${values.push(parameter)}`;
      return text + written + (piece.texts[index + 1] ?? '');
    }, piece.texts[0] ?? '');
  return { text: write(statement), values };
}

function isSql(parameter: Sql | SqlParameter): parameter is Sql {
  return typeof parameter === 'object' && parameter !== null && 'texts' in parameter;
}
