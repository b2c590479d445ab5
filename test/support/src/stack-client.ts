export interface RequestOptions {
  /** SVC-API-KEY instead of the client's own key. Null sends none. */
  readonly key?: string | null;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Sent unchanged, in place of `body`. */
  readonly text?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Answer<Body> {
  readonly status: number;
  readonly headers: Headers;
  /** Undefined when the answer is empty. The type is an assumption of the test, which then checks it. */
  readonly body: Body;
  readonly text: string;
}

/** The HTTP client of all tests. It does not use positions, as a plain client does not. */
export interface Client {
  request<Body = unknown>(method: string, path: string, options?: RequestOptions): Promise<Answer<Body>>;
  /** As `request`. @throws Error with the answer when the status is not the one given. */
  expect<Body = unknown>(
    status: number,
    method: string,
    path: string,
    options?: RequestOptions,
  ): Promise<Answer<Body>>;
  withKey(key: string): Client;
}

export function createClient(url: string, key: string): Client {
  async function request<Body>(
    method: string,
    path: string,
    options: RequestOptions = {},
  ): Promise<Answer<Body>> {
    const { body, headers } = options;
    const sentKey = options.key === undefined ? key : options.key;
    const content = options.text ?? (body === undefined ? undefined : JSON.stringify(body));
    const type = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
    const response = await fetch(`${url}${path}`, {
      method,
      headers: {
        ...(sentKey === null ? {} : { 'SVC-API-KEY': sentKey }),
        ...(content === undefined ? {} : { 'Content-Type': type }),
        ...headers,
      },
      ...(content === undefined ? {} : { body: content }),
    });
    const text = await response.text();
    const isJson = response.headers.get('content-type')?.includes('json') ?? false;
    return {
      status: response.status,
      headers: response.headers,
      body: (isJson ? JSON.parse(text) : undefined) as Body,
      text,
    };
  }

  return {
    request,
    async expect<Body>(status: number, method: string, path: string, options?: RequestOptions) {
      const answer = await request<Body>(method, path, options);
      if (answer.status !== status) {
        throw new Error(`${method} ${path}: ${answer.status} instead of ${status}: ${answer.text}`);
      }
      return answer;
    },
    withKey: (other) => createClient(url, other),
  };
}
