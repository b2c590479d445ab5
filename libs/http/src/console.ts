import type { Express, Request, Response } from 'express';
import { gzipSync } from 'node:zlib';

/** A file of the console. `etag` is the quoted value of the header. */
export interface ConsoleFile {
  readonly body: Buffer;
  readonly type: string;
  readonly etag: string;
}

/** By the path below `/console/`. */
export type ConsoleFiles = ReadonlyMap<string, ConsoleFile>;

/** The page loads nothing from another host and has no script, style or form in its text. It cannot be framed. */
const contentPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** The name of an asset holds the hash of its content, so the asset never changes. */
const hashedName = /-[A-Za-z0-9_-]{8,}\.\w+$/;
const compressible = /^(text\/|application\/(json|javascript)|image\/svg)/;

const compressed = new WeakMap<ConsoleFile, Buffer>();
function gzipped(file: ConsoleFile): Buffer {
  const known = compressed.get(file);
  if (known) return known;
  const bytes = gzipSync(file.body, { level: 9 });
  compressed.set(file, bytes);
  return bytes;
}

const acceptsGzip = ({ headers }: Request): boolean =>
  /(^|[\s,])gzip(?!\s*;\s*q=0(\.0*)?(\s|,|$))/i.test(String(headers['accept-encoding'] ?? ''));

function send(request: Request, response: Response, name: string, file: ConsoleFile): void {
  response.setHeader('Content-Type', file.type);
  response.setHeader('Content-Security-Policy', contentPolicy);
  response.setHeader('X-Content-Type-Options', 'nosniff');
  response.setHeader('Referrer-Policy', 'no-referrer');
  response.setHeader('Cross-Origin-Opener-Policy', 'same-origin');
  response.setHeader('Cross-Origin-Resource-Policy', 'same-origin');
  response.setHeader('ETag', file.etag);
  response.setHeader('Vary', 'Accept-Encoding');
  const lasts = hashedName.test(name) ? 'public, max-age=31536000, immutable' : 'no-cache';
  response.setHeader('Cache-Control', lasts);
  if (request.headers['if-none-match'] === file.etag) {
    response.statusCode = 304;
    response.end();
    return;
  }
  const isCompressed = compressible.test(file.type) && acceptsGzip(request);
  if (isCompressed) response.setHeader('Content-Encoding', 'gzip');
  const bytes = isCompressed ? gzipped(file) : file.body;
  response.setHeader('Content-Length', bytes.length);
  response.end(request.method === 'HEAD' ? undefined : bytes);
}

function redirect(response: Response): void {
  response.setHeader('Location', '/console/');
  response.setHeader('Cache-Control', 'no-cache');
  response.statusCode = 302;
  response.end();
}

/**
 * `/` and `/console` lead to `/console/`, where the pages of the console are. They hold no data and need no key. Mount it after the
 * operations, some of which are below `/console/`.
 * @param files called at the first request for one: making the bundle takes seconds when it is not kept
 */
export function mountConsole(app: Express, files: () => Promise<ConsoleFiles>): void {
  app.get('/', (_request, response) => redirect(response));
  app.get(/^\/console(\/.*)?$/, async (request, response, next) => {
    if (request.path === '/console') return redirect(response);
    const name = request.path.slice('/console/'.length) || 'index.html';
    const file = (await files()).get(name);
    if (file) send(request, response, name, file);
    else next();
  });
}
