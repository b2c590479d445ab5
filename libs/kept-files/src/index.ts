export { keptFiles, type Made, type Recipe } from './kept-files.ts';
