/** Events and abort signals for a bare V8 context. */
export class DOMException extends Error {
  readonly code: number;
  constructor(message = '', name = 'Error') {
    super(message);
    this.name = name;
    this.code = name === 'AbortError' ? 20 : name === 'TimeoutError' ? 23 : 0;
  }
}

export class Event {
  readonly type: string;
  readonly cancelable: boolean;
  defaultPrevented = false;
  target: unknown = null;
  currentTarget: unknown = null;
  isStopped = false;
  readonly timeStamp = Date.now();

  constructor(type: string, options: { cancelable?: boolean } = {}) {
    this.type = String(type);
    this.cancelable = options.cancelable === true;
  }
  preventDefault(): void {
    if (this.cancelable) this.defaultPrevented = true;
  }
  stopPropagation(): void {}
  stopImmediatePropagation(): void {
    this.isStopped = true;
  }
}

type Listener = ((event: Event) => void) | { handleEvent(event: Event): void };

export class EventTarget {
  /** Handlers that are set as properties, such as `onabort`. */
  [handler: `on${string}`]: unknown;
  readonly #listeners = new Map<string, { listener: Listener; once: boolean }[]>();

  addEventListener(
    type: string,
    listener: Listener | null,
    options?: boolean | { once?: boolean; signal?: AbortSignal },
  ): void {
    if (listener === null || listener === undefined) return;
    const settings = typeof options === 'object' ? options : {};
    if (settings.signal?.aborted) return;
    const list = this.#listeners.get(type) ?? [];
    if (list.some((entry) => entry.listener === listener)) return;
    list.push({ listener, once: settings.once === true });
    this.#listeners.set(type, list);
    settings.signal?.addEventListener('abort', () => this.removeEventListener(type, listener));
  }

  removeEventListener(type: string, listener: Listener | null): void {
    const list = this.#listeners.get(type);
    if (list !== undefined)
      this.#listeners.set(
        type,
        list.filter((entry) => entry.listener !== listener),
      );
  }

  dispatchEvent(event: Event): boolean {
    event.target = this;
    event.currentTarget = this;
    const handler = this[`on${event.type}`];
    if (typeof handler === 'function') (handler as (event: Event) => void).call(this, event);
    for (const { listener, once } of [...(this.#listeners.get(event.type) ?? [])]) {
      if (event.isStopped) break;
      if (once) this.removeEventListener(event.type, listener);
      if (typeof listener === 'function') listener.call(this, event);
      else listener.handleEvent(event);
    }
    return !event.defaultPrevented;
  }
}

const create = Symbol('create');

export class AbortSignal extends EventTarget {
  #reason: unknown;
  #aborted = false;
  onabort: ((event: Event) => void) | null = null;

  constructor(token?: symbol) {
    super();
    if (token !== create) throw new TypeError('Illegal constructor');
  }
  get aborted(): boolean {
    return this.#aborted;
  }
  get reason(): unknown {
    return this.#reason;
  }
  throwIfAborted(): void {
    if (this.#aborted) throw this.#reason;
  }

  static make(): { signal: AbortSignal; abort: (reason?: unknown) => void } {
    const signal = new AbortSignal(create);
    const abort = (reason: unknown = new DOMException('This operation was aborted', 'AbortError')): void => {
      if (signal.#aborted) return;
      signal.#aborted = true;
      signal.#reason = reason;
      signal.dispatchEvent(new Event('abort'));
    };
    return { signal, abort };
  }
  static abort(reason?: unknown): AbortSignal {
    const { signal, abort } = AbortSignal.make();
    abort(reason);
    return signal;
  }
  static timeout(ms: number): AbortSignal {
    const { signal, abort } = AbortSignal.make();
    setTimeout(() => abort(new DOMException('The operation was aborted due to timeout', 'TimeoutError')), ms);
    return signal;
  }
  static any(signals: Iterable<AbortSignal>): AbortSignal {
    const { signal, abort } = AbortSignal.make();
    for (const each of signals) {
      if (each.aborted) abort(each.reason);
      else each.addEventListener('abort', () => abort(each.reason));
    }
    return signal;
  }
}

export class AbortController {
  readonly signal: AbortSignal;
  readonly abort: (reason?: unknown) => void;
  constructor() {
    const { signal, abort } = AbortSignal.make();
    this.signal = signal;
    this.abort = abort;
  }
}
