import type { OpenApiDocument } from '@token-vault/contracts';
import type { Express, Response } from 'express';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';

/** No resource is loaded from another host, and the page can send requests to this vault only. Swagger UI sets styles inline. */
const contentPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

const page = (title: string): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<link rel="stylesheet" href="/docs/swagger-ui.css">
</head>
<body>
<div id="reference"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
`;

/** `validatorUrl: null`: otherwise the page sends the document's address to a service on the internet. */
const startScript = `SwaggerUIBundle({
  url: '/openapi.json',
  dom_id: '#reference',
  deepLinking: true,
  persistAuthorization: false,
  validatorUrl: null,
});
`;

function send(response: Response, contentType: string, body: string | Buffer): void {
  response.setHeader('Content-Type', contentType);
  response.setHeader('Content-Security-Policy', contentPolicy);
  response.setHeader('X-Content-Type-Options', 'nosniff');
  response.setHeader('Referrer-Policy', 'no-referrer');
  response.setHeader('Cache-Control', 'no-cache');
  response.end(body);
}

/** Files of the installed package, read once. */
function assets(): Readonly<Record<string, { readonly type: string; readonly content: Buffer }>> {
  const folder = path.dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/swagger-ui.css'));
  const load = (name: string, type: string) => ({ type, content: readFileSync(path.join(folder, name)) });
  return {
    'swagger-ui.css': load('swagger-ui.css', 'text/css; charset=utf-8'),
    'swagger-ui-bundle.js': load('swagger-ui-bundle.js', 'text/javascript; charset=utf-8'),
  };
}

/**
 * `GET /openapi.json`: the document. `GET /docs`: an interactive page of the document, with all assets local. Neither needs a key or shows
 * data.
 *
 * @param makeDocument called at the first request: it takes 0.15 s of the processor
 */
export function mountReference(app: Express, makeDocument: () => OpenApiDocument): void {
  let json: string | undefined;
  app.get('/openapi.json', (_request, response) => {
    json ??= JSON.stringify(makeDocument());
    send(response, 'application/json; charset=utf-8', json);
  });
  app.get('/docs', (_request, response) =>
    send(response, 'text/html; charset=utf-8', page('Token vault: reference')),
  );
  app.get('/docs/start.js', (_request, response) =>
    send(response, 'text/javascript; charset=utf-8', startScript),
  );
  for (const [name, { type, content }] of Object.entries(assets()))
    app.get(`/docs/${name}`, (_request, response) => send(response, type, content));
}
