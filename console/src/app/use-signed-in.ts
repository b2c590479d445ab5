import { useCallback, useEffect, useMemo, useRef, useState } from 'react';
import { flushSync } from 'react-dom';
import type { ConsoleSession } from '@token-vault/contracts';
import { type ApiError, asApiError, bindTo, call, onRefused, sessionPath } from '../api/client.ts';

export type State =
  | { readonly is: 'starting' }
  | { readonly is: 'unreachable'; readonly error: ApiError }
  | { readonly is: 'out'; readonly wasIn: boolean }
  | { readonly is: 'in'; readonly session: ConsoleSession }
  /** A person signs out. `error`: the vault has not confirmed it. */
  | { readonly is: 'leaving'; readonly session: ConsoleSession; readonly error?: ApiError }
  /** Another tab has signed in to another tenant, with the cookie that all tabs have. */
  | { readonly is: 'replaced' };

const readSession = async (): Promise<State> => {
  try {
    return { is: 'in', session: await call<ConsoleSession>('GET', sessionPath) };
  } catch (thrown) {
    const error = asApiError(thrown);
    return error.status === 401 ? { is: 'out', wasIn: false } : { is: 'unreachable', error };
  }
};

type WithSession = Extract<State, { readonly session: ConsoleSession }>;

/** The state of a page that finds another session in its cookie, or none. A key that was added in another tab is one of this tab, too. */
function stateAfter(before: WithSession, found: State): State {
  if (found.is === 'out') return { is: 'out', wasIn: before.is === 'in' };
  const isOther = found.is === 'in' && found.session.tenant.id !== before.session.tenant.id;
  return isOther ? { is: 'replaced' } : found;
}

/** The state of the page, and the function that changes it. Requests name the session that is shown from then on. */
function useShown() {
  const [state, setState] = useState<State>({ is: 'starting' });
  const latest = useRef(state);
  const show = useCallback((next: State) => {
    latest.current = next;
    bindTo('session' in next ? next.session.id : undefined);
    setState(next);
  }, []);
  return { state, latest, show };
}

/** Runs `look` when the cookie may have changed in another tab, or the browser shows a page that it has kept. */
function useOtherTabs(look: () => void, hide: () => void, start: () => void): () => void {
  const tabs = useMemo(() => new BroadcastChannel('vault-console'), []);
  useEffect(() => {
    const restore = ({ persisted }: PageTransitionEvent) => {
      if (persisted) start();
    };
    tabs.addEventListener('message', look);
    // A page that the browser keeps for its Back button holds no data.
    addEventListener('pagehide', hide);
    addEventListener('pageshow', restore);
    return () => {
      tabs.removeEventListener('message', look);
      removeEventListener('pagehide', hide);
      removeEventListener('pageshow', restore);
    };
  }, [tabs, look, hide, start]);
  return useCallback(() => tabs.postMessage('changed'), [tabs]);
}

/** Whether this browser is signed in, and the functions that change it. */
export function useSignedIn() {
  const { state, latest, show } = useShown();
  const start = useCallback(() => void readSession().then(show), [show]);
  const hide = useCallback(() => flushSync(() => show({ is: 'starting' })), [show]);
  const look = useCallback(
    async (isRefused: boolean) => {
      const before = latest.current;
      if (!('session' in before)) return;
      const found = await readSession();
      // Meanwhile the person has signed in or out.
      if (latest.current !== before) return;
      const isSame = found.is === 'in' && found.session.id === before.session.id;
      if (!isSame) show(stateAfter(before, found));
      else if (isRefused) show({ is: 'out', wasIn: before.is === 'in' });
    },
    [latest, show],
  );
  const tellOthers = useOtherTabs(
    useCallback(() => void look(false), [look]),
    hide,
    start,
  );
  useEffect(() => {
    onRefused((isOfKey) => void look(!isOfKey));
    start();
  }, [look, start]);

  const enter = (session: ConsoleSession) => {
    show({ is: 'in', session });
    tellOthers();
  };
  const signOut = async () => {
    const before = latest.current;
    if (!('session' in before)) return;
    const { session } = before;
    show({ is: 'leaving', session });
    try {
      await call('DELETE', sessionPath);
      show({ is: 'out', wasIn: false });
    } catch (thrown) {
      const error = asApiError(thrown);
      // The session has ended before. Another one of this browser may have taken its place.
      if ([401, 404].includes(error.status)) await look(true);
      else show({ is: 'leaving', session, error });
    }
    tellOthers();
  };
  return { state, start, enter, signOut };
}
