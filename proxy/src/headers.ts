import { DomainError, ValidationError, type RawRequest } from '@token-vault/contracts';
import type { Pieces, Template } from './template.ts';

/**
 * Headers that are not sent on: the vault's own, cookies (those of a client are for the vault's host), the address of the page that asks (it
 * may hold the key of a proxy), and those that gateways before the vault have added. Those that `Connection` names are not sent either;
 * libs/egress drops the other headers of the connection.
 */
const own = /^(svc-.*|cookie2?|referer|forwarded|via|x-forwarded-.*|x-real-ip)$/i;

export interface HeaderPieces {
  readonly name: string;
  /** Its place in errors. */
  readonly field: string;
  readonly value: Pieces;
}

const namedByConnection = (headers: RawRequest['headers']): ReadonlySet<string> =>
  new Set(
    headers
      .filter(([name]) => name.toLowerCase() === 'connection')
      .flatMap(([, value]) => value.toLowerCase().split(','))
      .map((name) => name.trim()),
  );

/** RFC 9110, 5.1. */
export const isHeaderName = (name: string): boolean => /^[\w!#$%&'*+.^`|~-]{1,200}$/.test(name);

/** Whether a header that code gave must not be sent on. */
export const staysBehind = (name: string): boolean => own.test(name);

/** RFC 9110, 5.5. A line end would begin a header of its own, a NUL is taken for an end by some. */
const fieldValue = /^[\t\x20-\x7e\x80-\xff]*$/;
export const isHeaderValue = (text: string): boolean => fieldValue.test(text);

/** For a header with the values of its tokens. @throws DomainError `value_unfit` naming `field` */
export function requireHeaderValue(text: string, field: string): void {
  if (isHeaderValue(text)) return;
  throw new DomainError('value_unfit', `${field}: the value of a token cannot stand in a header.`, {
    errors: { [field]: ['would hold a character that no header may hold'] },
  });
}

/** The headers that go on. @throws ValidationError */
export function piecesOfHeaders(template: Template, { headers }: RawRequest): readonly HeaderPieces[] {
  const ofConnection = namedByConnection(headers);
  return headers
    .filter(([name]) => !own.test(name) && !ofConnection.has(name.toLowerCase()))
    .map(([name, value]) => {
      const field = `headers.${name.toLowerCase()}`;
      const pieces = value.includes('{{') ? template.cut(field, value, { value: (given) => given }) : [value];
      return { name, field, value: pieces };
    });
}

/** The value of a header that may be given once. @throws ValidationError */
export function onlyOne({ headers }: RawRequest, name: string): string {
  const values = headers.filter(([given]) => given.toLowerCase() === name).map(([, value]) => value);
  if (values.length > 1) throw ValidationError.of(`headers.${name}`, 'must be given once');
  return values[0] ?? '';
}
