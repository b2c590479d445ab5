import type { Writable } from 'node:stream';
import type pg from 'pg';

/** The socket of a connected client, which the types of pg do not declare: to write several statements at once, or to end it at once. */
export const streamOf = (client: pg.ClientBase): Writable =>
  (client as unknown as { readonly connection: { readonly stream: Writable } }).connection.stream;
