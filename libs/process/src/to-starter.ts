/** What a process tells the stack that started it, if one did. */
export type ToStarter =
  | { readonly kind: 'started' }
  | { readonly kind: 'leading'; readonly task: string; readonly isLeading: boolean };

export function tellStarter(message: ToStarter): void {
  process.send?.(message);
}

/** Tells the stack that this process leads `task` now, or does so no more. */
export const tellLeading = (task: string, isLeading: boolean): void =>
  tellStarter({ kind: 'leading', task, isLeading });
