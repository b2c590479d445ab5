export * from './port.ts';
export * from './append-group.ts';
