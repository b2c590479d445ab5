import { useCallback, useEffect, useState } from 'react';
import { isInUse } from './activity.ts';
import { type ApiError, asApiError, call } from './client.ts';

/** The result of a request so far. While it is repeated, `data` is the answer before. */
export interface Query<Data> {
  readonly data: Data | undefined;
  readonly error: ApiError | undefined;
  readonly isLoading: boolean;
  readonly reload: () => void;
}

interface State<Data> {
  readonly path: string | undefined;
  readonly data: Data | undefined;
  readonly error: ApiError | undefined;
  readonly isLoading: boolean;
}

export interface QueryOptions {
  /** Repeats the request after this time while the page is in use. */
  readonly everyMs?: number | undefined;
  /** Reads by POST with this body instead. */
  readonly body?: object | undefined;
}

/** Reads `path` by GET, again when it changes. Undefined reads nothing. */
export function useQuery<Data>(path: string | undefined, { everyMs, body }: QueryOptions = {}): Query<Data> {
  const text = body && JSON.stringify(body);
  const [state, setState] = useState<State<Data>>({
    path: undefined,
    data: undefined,
    error: undefined,
    isLoading: true,
  });
  const [round, setRound] = useState(0);
  const reload = useCallback(() => setRound((before) => before + 1), []);
  useEffect(() => {
    if (path === undefined) return;
    const abort = new AbortController();
    setState((before) => ({ ...before, isLoading: true }));
    const request =
      text === undefined
        ? call<Data>('GET', path, { signal: abort.signal })
        : call<Data>('POST', path, { signal: abort.signal, body: JSON.parse(text) as unknown });
    request
      .then((data) => setState({ path, data, error: undefined, isLoading: false }))
      .catch((error: unknown) => {
        if (abort.signal.aborted) return;
        setState({ path, data: undefined, error: asApiError(error), isLoading: false });
      });
    return () => abort.abort();
  }, [path, text, round]);
  useEffect(() => {
    if (everyMs === undefined) return;
    const timer = setInterval(() => {
      if (isInUse()) reload();
    }, everyMs);
    return () => clearInterval(timer);
  }, [everyMs, reload]);
  return { data: state.data, error: state.error, isLoading: state.isLoading, reload };
}

/** A request that a person starts. `run` gives its answer, or undefined after a failure; then `error` is set. */
export interface Action<Arguments extends readonly unknown[], Result> {
  readonly run: (...args: Arguments) => Promise<Result | undefined>;
  readonly isRunning: boolean;
  readonly error: ApiError | undefined;
  readonly clear: () => void;
}

export function useAction<Arguments extends readonly unknown[], Result>(
  perform: (...args: Arguments) => Promise<Result>,
): Action<Arguments, Result> {
  const [isRunning, setRunning] = useState(false);
  const [error, setError] = useState<ApiError>();
  const run = async (...args: Arguments): Promise<Result | undefined> => {
    setRunning(true);
    setError(undefined);
    try {
      return await perform(...args);
    } catch (thrown) {
      setError(asApiError(thrown));
      return undefined;
    } finally {
      setRunning(false);
    }
  };
  return { run, isRunning, error, clear: () => setError(undefined) };
}
