import type { QueryConfig } from 'pg';

/** The types that a parameter of a statement may have. */
export type SqlParameter = string | number | boolean | Date | null | readonly string[];

/**
 * A piece of SQL with its parameters. Only literals of the program become text, all other values are parameters. So a
 * statement that is composed at run time is safe against injection.
 */
export interface Sql {
  readonly texts: readonly string[];
  readonly parameters: readonly (Sql | SqlParameter)[];
}

export function sql(texts: TemplateStringsArray, ...parameters: readonly (Sql | SqlParameter)[]): Sql {
  return { texts, parameters };
}

export const nothing: Sql = sql``;

/** Joins the pieces by `or`. False when there are none. */
export const anyOf = (pieces: readonly Sql[]): Sql => joined(pieces, ' or ', sql`false`);

/** Joins the pieces by `and`. True when there are none. */
export const allOf = (pieces: readonly Sql[]): Sql => joined(pieces, ' and ', sql`true`);

function joined(pieces: readonly Sql[], separator: string, ifNone: Sql): Sql {
  if (pieces.length === 0) return ifNone;
  const between = pieces.slice(1).map(() => `)${separator}(`);
  return { texts: ['((', ...between, '))'], parameters: pieces };
}

/** The statement in the form of node-postgres. */
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
