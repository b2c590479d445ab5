import type { Turn } from '@token-vault/batching';
import { ValidationError } from '@token-vault/contracts';
import { piecesOfJson } from './json-body.ts';
import { inForm, piecesOfPairs } from './pairs.ts';
import type { Pieces, Template, Writing } from './template.ts';

type Kind = 'json' | 'form' | 'xml' | 'text';

/** Undefined: bytes, which go on as they are. */
export function kindOf(mediaType: string): Kind | undefined {
  const type = mediaType.split(';', 1)[0]?.trim().toLowerCase() ?? '';
  if (/^[^/]+\/(.+\+)?json$/.test(type)) return 'json';
  if (type === 'application/x-www-form-urlencoded') return 'form';
  if (/^[^/]+\/(.+\+)?(xml|html)$/.test(type)) return 'xml';
  return type.startsWith('text/') ? 'text' : undefined;
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};
const inXml: Writing = (text) => text.replaceAll(/[&<>"']/g, (character) => entities[character] ?? '');

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function textOf(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes);
  } catch {
    throw ValidationError.of('body', 'must be UTF-8 where it holds an expression');
  }
}

/** Whether it may hold an expression, also one that a form has escaped. */
function mayHoldExpression(bytes: Uint8Array, kind: Kind): boolean {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return buffer.includes('{{') || (kind === 'form' && /(?:\{|%7b){2}/i.test(buffer.toString('latin1')));
}

/**
 * The pieces of a body of JSON, a form, XML or text; undefined for a body that is sent unchanged: of another type, compressed, or without an
 * expression. @throws ValidationError
 */
export async function piecesOfBody(
  template: Template,
  body: Uint8Array,
  { mediaType, isEncoded }: { readonly mediaType: string; readonly isEncoded: boolean },
  turn: Turn,
): Promise<Pieces | undefined> {
  const kind = isEncoded ? undefined : kindOf(mediaType);
  if (kind === undefined || !mayHoldExpression(body, kind)) return undefined;
  const text = textOf(body);
  if (turn.isOver) await turn.next();
  switch (kind) {
    case 'json':
      return piecesOfJson(template, text, turn);
    case 'form':
      return piecesOfPairs(template, { place: 'body', text }, inForm, turn);
    case 'xml':
      return template.cut('body', text, { value: inXml });
    case 'text':
      return template.cut('body', text, { value: (value) => value });
  }
}
