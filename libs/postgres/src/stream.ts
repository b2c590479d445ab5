import type { Writable } from 'node:stream';
import type pg from 'pg';

declare module 'pg' {
  interface ClientBase {
    /** The types of pg do not declare it. */
    readonly connection: { readonly stream: Writable };
  }
}

/** The socket of a connected client: to write several statements at once, or to end it at once. */
export const streamOf = (client: pg.ClientBase): Writable => client.connection.stream;
