import { request as plainRequest } from 'node:http';
import { request as tlsRequest } from 'node:https';

export interface Exchange {
  readonly method: 'GET' | 'POST';
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
  readonly authority: string | undefined;
  readonly timeoutMs: number;
}

export interface Reply {
  readonly status: number;
  readonly retryAfterMs: number;
  /** Undefined when the body is not JSON. */
  readonly json: unknown;
}

/** Keys and ciphertexts are short: a longer answer does not come from a transit engine. */
const longestReply = 64 * 1024;

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/**
 * Sends one request over a connection of its own. Redirects are not followed, because the token is for this host only. Rejects with errors
 * of Node.
 */
export function exchange(given: Exchange): Promise<Reply> {
  const { method, url, headers, body, authority, timeoutMs } = given;
  const send = url.protocol === 'https:' ? tlsRequest : plainRequest;
  const signal = AbortSignal.timeout(timeoutMs);
  return new Promise((resolve, reject) => {
    const request = send(url, {
      method,
      headers,
      agent: false,
      signal,
      ...(authority === undefined ? {} : { ca: authority }),
    });
    request.on('error', reject);
    request.on('response', (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (part: string) => {
        text += part;
        if (text.length > longestReply) response.destroy(new Error('the answer is too long'));
      });
      response.on('error', reject);
      response.on('end', () => {
        const seconds = Number(response.headers['retry-after'] ?? 0);
        const retryAfterMs = Number.isFinite(seconds) && seconds > 0 ? seconds * 1000 : 0;
        resolve({ status: response.statusCode ?? 0, retryAfterMs, json: parse(text) });
      });
    });
    request.end(body);
  });
}
