export { type ConsoleFile, consoleFiles } from './bundle.ts';
