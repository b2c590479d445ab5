import { createContext, useContext } from 'react';
import type { Permission } from '@token-vault/contracts';
import type { ConsoleSession } from '@token-vault/contracts';

interface SignedIn {
  readonly session: ConsoleSession;
  readonly signOut: () => Promise<void>;
  /** A further key was added to the session, or replaced one. */
  readonly enter: (session: ConsoleSession) => void;
}

const SessionContext = createContext<SignedIn | undefined>(undefined);
export const SessionProvider = SessionContext.Provider;

export function useSession(): SignedIn {
  const signedIn = useContext(SessionContext);
  if (signedIn === undefined) throw new Error('no session');
  return signedIn;
}

/** Whether the keys by which the person signed in hold the permission. The vault decides by itself; this only says it beforehand. */
export function useMay(permission: Permission): boolean {
  return useSession().session.permissions.includes(permission);
}
