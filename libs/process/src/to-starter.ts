/** A message from a process to the stack that started it. */
export type ToStarter =
  | { readonly kind: 'started' }
  | { readonly kind: 'leading'; readonly task: string; readonly isLeading: boolean };

/** Does nothing when no stack started this process, or when the stack has ended: then the closing channel ends this process. */
export function tellStarter(message: ToStarter): void {
  process.send?.(message, undefined, undefined, () => undefined);
}

/** Tells the stack that this process leads `task` now, or no longer leads it. */
export const tellLeading = (task: string, isLeading: boolean): void =>
  tellStarter({ kind: 'leading', task, isLeading });
