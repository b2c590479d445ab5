type Query = Record<string, string[] | string>;

export function escape(text: string): string {
  return encodeURIComponent(text);
}

export function unescape(text: string): string {
  try {
    return decodeURIComponent(text.replace(/\+/g, ' '));
  } catch {
    return text;
  }
}

export function parse(text: string, separator = '&', equals = '='): Query {
  const query = Object.create(null) as Query;
  for (const part of String(text ?? '').split(separator)) {
    if (part === '') continue;
    const at = part.indexOf(equals);
    const key = unescape(at < 0 ? part : part.slice(0, at));
    const value = at < 0 ? '' : unescape(part.slice(at + equals.length));
    const known = query[key];
    query[key] = known === undefined ? value : Array.isArray(known) ? [...known, value] : [known, value];
  }
  return query;
}

export function stringify(query: Record<string, unknown>, separator = '&', equals = '='): string {
  const text = (value: unknown): string =>
    ['string', 'number', 'boolean', 'bigint'].includes(typeof value) ? encodeURIComponent(String(value)) : '';
  return Object.entries(query ?? {})
    .flatMap(([key, value]) =>
      (Array.isArray(value) ? value : [value]).map(
        (each) => `${encodeURIComponent(key)}${equals}${text(each)}`,
      ),
    )
    .join(separator);
}

export const encode = stringify;
export const decode = parse;
